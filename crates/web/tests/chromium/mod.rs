//! A headless Chromium, driven over its debugging pipe.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long any answer may take: a browser that hangs fails the test.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the visitor's system prefers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    Light,
    Dark,
}

/// A tab.
pub struct Page {
    target: String,
    session: String,
}

/// The browser.
pub struct Chromium {
    child: Child,
    pipe: ChildStdin,
    messages: Receiver<Value>,
    next: u64,
    complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Chromium {
    /// Starts one of the browsers that Debian has.
    pub fn start() -> Chromium {
        let profile = tempfile::tempdir().unwrap();
        // The pipe's two ends are file descriptors 3 and 4.
        let mut child = Command::new("sh")
            .arg("-c")
            .arg("exec $(command -v chromium-headless-shell || command -v chromium) \"$@\" 3<&0 4>&1 </dev/null >/dev/null")
            .arg("chromium")
            .args(["--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"])
            .args(["--disable-dev-shm-usage", "--hide-scrollbars", "--force-device-scale-factor=1"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh is there");
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in output.split(0) {
                let Ok(message) = message else { break };
                let Ok(value) = serde_json::from_slice(&message) else { break };
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        let pipe = child.stdin.take().unwrap();
        let mut browser =
            Chromium { child, pipe, messages, next: 0, complaints: Vec::new(), _profile: profile };
        browser.command(None, "Browser.getVersion", json!({}));
        browser
    }

    fn command(&mut self, session: Option<&str>, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": parameters });
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.pipe.write_all(&bytes).expect("Chromium runs: is it installed?");
        loop {
            let mut answer = self
                .messages
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|error| panic!("{method}: {error}"));
            if answer["id"] == json!(self.next) {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].take();
            }
            self.note(&answer);
        }
    }

    /// Keeps what the console says.
    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                self.complaints.push(parameters["exceptionDetails"].to_string())
            }
            Some("Runtime.consoleAPICalled") => {
                self.complaints.push(parameters["args"].to_string())
            }
            Some("Log.entryAdded") => self.complaints.push(parameters["entry"].to_string()),
            _ => {}
        }
    }

    /// A new tab.
    pub fn page(&mut self) -> Page {
        let made = self.command(None, "Target.createTarget", json!({ "url": "about:blank" }));
        let target = made["targetId"].as_str().unwrap().to_owned();
        let attach = json!({ "targetId": target, "flatten": true });
        let attached = self.command(None, "Target.attachToTarget", attach);
        let session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            self.command(Some(&session), domain, json!({}));
        }
        Page { target, session }
    }

    /// Closes it.
    pub fn close(&mut self, page: Page) {
        self.command(None, "Target.closeTarget", json!({ "targetId": page.target }));
    }

    /// Sets the size of the window [px] and the preferred colours.
    pub fn size(&mut self, page: &Page, (width, height): (u32, u32), scheme: Scheme) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.command(Some(&page.session), "Emulation.setDeviceMetricsOverride", metrics);
        let scheme = format!("{scheme:?}").to_lowercase();
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.command(Some(&page.session), "Emulation.setEmulatedMedia", features);
    }

    /// Goes to an address.
    pub fn navigate(&mut self, page: &Page, url: &str) {
        self.command(Some(&page.session), "Page.navigate", json!({ "url": url }));
        self.wait(page, "typeof state !== 'undefined' && state.settings !== null");
    }

    /// The value of an expression in the page.
    pub fn evaluate(&mut self, page: &Page, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.command(Some(&page.session), "Runtime.evaluate", parameters);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {}",
            answer["exceptionDetails"]
        );
        answer["result"]["value"].take()
    }

    /// Waits, a picture at a time, until a condition holds.
    pub fn wait(&mut self, page: &Page, condition: &str) {
        for _ in 0..3_000 {
            let looks =
                format!("new Promise((go) => setTimeout(() => go(Boolean({condition})), 20))");
            if self.evaluate(page, &looks) == json!(true) {
                return;
            }
        }
        panic!("does not come to hold: {condition}");
    }

    /// Waits for so many pictures.
    pub fn frames(&mut self, page: &Page, count: u32) {
        for _ in 0..count {
            self.evaluate(page, "new Promise((go) => requestAnimationFrame(() => go(0)))");
        }
    }

    /// Presses and releases a key.
    pub fn key(&mut self, page: &Page, key: &str, text: &str) {
        let code =
            if key == "Enter" { 13 } else { u32::from(key.as_bytes()[0].to_ascii_uppercase()) };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" {
                event["text"] = json!(text);
            }
            self.command(Some(&page.session), "Input.dispatchKeyEvent", event);
        }
    }

    /// Role and name of everything that assistive software is told of.
    pub fn accessible(&mut self, page: &Page) -> Vec<(String, String)> {
        let tree = self.command(Some(&page.session), "Accessibility.getFullAXTree", json!({}));
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        let nodes = tree["nodes"].as_array().unwrap().iter();
        let told = nodes.filter(|node| node["ignored"] != json!(true));
        told.map(|node| (text(&node["role"]), text(&node["name"]))).collect()
    }

    /// Writes a picture of the whole page.
    pub fn screenshot(&mut self, page: &Page, file: &Path) {
        let whole = json!({ "format": "png", "captureBeyondViewport": true });
        let answer = self.command(Some(&page.session), "Page.captureScreenshot", whole);
        let picture = answer["data"].as_str().unwrap();
        std::fs::write(file, base64(picture)).unwrap();
    }

    /// What the console said so far.
    pub fn complaints(&mut self) -> Vec<String> {
        core::mem::take(&mut self.complaints)
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter_map(|byte| ALPHABET.iter().position(|one| *one == byte));
    let (mut bytes, mut held, mut bits) = (Vec::new(), 0_u32, 0);
    for digit in digits {
        held = (held << 6) | digit as u32;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    bytes
}
