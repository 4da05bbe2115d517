//! Two hosts, two appliances and a long lossy link between them, in network namespaces.

pub mod exchange;
mod namespace;
pub mod numbers;

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use wellspring_appliance::link_emulator::{LinkConfig, Loss};
use wellspring_testkit::wait::wait_until;

use namespace::LongLink;
pub use namespace::{make_plain, spawn_inside};
pub use wellspring_testkit::wait::PATIENCE;

pub const WELLSPRING: &str = env!("CARGO_BIN_EXE_wellspring");
/// The variable that tells a test what to do as a program in a namespace.
pub const ROLE: &str = "WELLSPRING_TEST_ROLE";
pub const HOST_A: &str = "10.82.1.2";
pub const HOST_B: &str = "10.82.2.2";
pub const HOST_B_IPV6: &str = "fd82:2::2";
/// Ends of the first host's addresses.
pub const SPREAD: std::ops::Range<u8> = 2..18;

/// What the long link loses.
#[derive(Clone, Copy)]
pub struct Losses {
    pub there: Loss,
    pub back: Loss,
    pub seed: u64,
}

/// A link that loses nothing.
pub const NO_LOSS: Losses = Losses::random(0.0);

impl Losses {
    /// This part both ways.
    pub const fn random(part: f64) -> Self {
        Losses { there: Loss::Random(part), back: Loss::Random(part), seed: 1 }
    }
}

/// The namespaces, and the programs in them.
pub struct Lab {
    tag: String,
    folder: tempfile::TempDir,
    running: Vec<(String, Child)>,
    link: Option<LongLink>,
}

/// Says that a test cannot run here. In CI, where everything can, that is a failure.
pub fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "not run: {why}");
    eprintln!("skipped: {why}");
}

impl Lab {
    const PARTS: [&str; 6] = ["ha", "aa", "ac", "li", "ab", "hb"];

    /// None where namespaces are not allowed.
    pub fn new(loss: Losses) -> Option<Self> {
        Self::build(loss, false)
    }

    /// With another router between the first and the long link.
    pub fn chain(loss: Losses) -> Option<Self> {
        Self::build(loss, true)
    }

    fn build(loss: Losses, chain: bool) -> Option<Self> {
        let root = Command::new("id").arg("-u").output().expect("id").stdout == b"0\n";
        if !root {
            skip("network namespaces need root");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        // Namespaces are the machine's: the folder's random name distinguishes this lab's from others'.
        let unique = folder.path().file_name().expect("a name").to_string_lossy().into_owned();
        let mut lab = Lab { tag: format!("ws{unique}"), folder, running: Vec::new(), link: None };
        for part in Self::PARTS {
            run(Command::new("ip").args(["netns", "add", &lab.namespace(part)]));
            lab.ip(part, &["link", "set", "lo", "up"]);
            // Else an interface asks for nobody's address in its first seconds, while its own might be
            // another's.
            let dad = "/proc/sys/net/ipv6/conf/default/accept_dad";
            let dad = format!("if [ -e {dad} ]; then echo 0 >{dad}; fi");
            run(lab.inside(part, "sh").args(["-c", &dad]));
        }
        lab.wire_site('a');
        lab.wire_site('b');
        if chain {
            lab.wire("aa", "wan", "ac", "lan", "1700");
            lab.wire("ac", "wan", "li", "near", "1700");
        } else {
            lab.wire("aa", "wan", "li", "near", "1700");
        }
        lab.wire("li", "far", "ab", "wan", "1700");
        for (part, side, address) in [
            (if chain { "ac" } else { "aa" }, "wan", "10.82.0.1/24"),
            ("ab", "wan", "10.82.0.2/24"),
        ] {
            lab.ip(part, &["addr", "add", address, "dev", side]);
        }
        if chain {
            lab.ip("aa", &["addr", "add", "10.82.3.1/24", "dev", "wan"]);
            lab.ip("ac", &["addr", "add", "10.82.3.2/24", "dev", "lan"]);
            lab.ip("aa", &["route", "add", "10.82.0.0/24", "via", "10.82.3.2"]);
            lab.ip("ac", &["route", "add", "10.82.1.0/24", "via", "10.82.3.1"]);
            lab.ip("ac", &["route", "add", "10.82.2.0/24", "via", "10.82.0.2"]);
            lab.ip("ab", &["route", "add", "10.82.3.0/24", "via", "10.82.0.1"]);
            lab.forward("ac", true);
        }
        let there = if chain { "10.82.3.2" } else { "10.82.0.2" };
        lab.ip("aa", &["route", "add", "10.82.2.0/24", "via", there]);
        lab.ip("ab", &["route", "add", "10.82.1.0/24", "via", "10.82.0.1"]);
        lab.forward("aa", true);
        lab.forward("ab", true);
        if has_ipv6() && !chain {
            lab.add_ipv6();
        }
        lab.start_link(10, loss);
        let key = lab.path("key");
        run(Command::new(WELLSPRING).args(["maelstrom", "key", &key]));
        Some(lab)
    }

    /// Joins the two sides by a long link of that one-way delay, in the place of the one before.
    pub fn start_link(&mut self, delay_ms: u64, losses: Losses) {
        let config = LinkConfig {
            delay: Duration::from_millis(delay_ms),
            rate: None,
            queue: 64_000,
            loss: losses.there,
            loss_back: losses.back,
            seed: losses.seed,
            first: false,
        };
        // The old one lets go of the interfaces first.
        self.link = None;
        self.link = Some(LongLink::start(&self.namespace("li"), config));
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }

    pub fn namespace(&self, part: &str) -> String {
        format!("{}{part}", self.tag)
    }

    pub fn ip(&self, part: &str, args: &[&str]) {
        run(Command::new("ip").args(["-n", &self.namespace(part)]).args(args));
    }

    pub fn inside(&self, part: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(part), program]);
        command
    }

    /// Wires the host and the router of a site, with their IPv4 addresses: at first, and when that has been taken away.
    pub fn wire_site(&self, site: char) {
        let (host, router, net, hosts) = match site {
            'a' => ("ha", "aa", "10.82.1", SPREAD),
            _ => ("hb", "ab", "10.82.2", 2..3),
        };
        self.wire(host, "lan", router, "lan", "1500");
        let add = |part, last| {
            self.ip(part, &["addr", "add", &format!("{net}.{last}/24"), "dev", "lan"]);
        };
        add(router, 1);
        hosts.for_each(|last| add(host, last));
        self.ip(host, &["route", "add", "default", "via", &format!("{net}.1")]);
    }

    /// A cable without offloads: one packet is one frame.
    pub fn wire(&self, part: &str, side: &str, other: &str, other_side: &str, mtu: &str) {
        let far = self.namespace(other);
        let pair = [
            "link", "add", "name", side, "type", "veth", "peer", "name", other_side, "netns", &far,
        ];
        self.ip(part, &pair);
        for (part, side) in [(part, side), (other, other_side)] {
            self.ip(part, &["link", "set", "dev", side, "mtu", mtu, "up"]);
            make_plain(&self.namespace(part), side);
            // While it is asked who a neighbour is, all packets for it wait, however long that takes.
            let wait = format!(
                "for v in 4 6; do f=/proc/sys/net/ipv$v/neigh/{side}/unres_qlen_bytes; \
                 if [ -e $f ]; then echo 16777216 >$f; fi; done"
            );
            run(self.inside(part, "sh").args(["-c", &wait]));
        }
    }

    /// Lets a namespace forward packets, or not.
    pub fn forward(&self, part: &str, on: bool) {
        let on = u8::from(on);
        let v6 = "/proc/sys/net/ipv6/conf/all/forwarding";
        let v6 = format!("if [ -e {v6} ]; then echo {on} >{v6}; fi");
        let v4 = format!("echo {on} >/proc/sys/net/ipv4/ip_forward");
        run(self.inside(part, "sh").args(["-c", &format!("{v4}; {v6}")]));
    }

    pub fn add_ipv6(&self) {
        for (part, side, address) in [
            ("ha", "lan", "fd82:1::2/64"),
            ("aa", "lan", "fd82:1::1/64"),
            ("aa", "wan", "fd82:0::1/64"),
            ("ab", "wan", "fd82:0::2/64"),
            ("ab", "lan", "fd82:2::1/64"),
            ("hb", "lan", "fd82:2::2/64"),
        ] {
            self.ip(part, &["addr", "add", address, "dev", side, "nodad"]);
        }
        self.ip("ha", &["route", "add", "default", "via", "fd82:1::1"]);
        self.ip("hb", &["route", "add", "default", "via", "fd82:2::1"]);
        self.ip("aa", &["route", "add", "fd82:2::/64", "via", "fd82:0::2"]);
        self.ip("ab", &["route", "add", "fd82:1::/64", "via", "fd82:0::1"]);
    }

    pub fn start(&mut self, name: &str, part: &str, args: &[&str]) {
        self.start_program(name, part, WELLSPRING, args);
    }

    pub fn start_program(&mut self, name: &str, part: &str, program: &str, args: &[&str]) {
        let mut command = self.inside(part, program);
        let child = command.args(args).stdout(Stdio::null()).spawn().expect("started");
        self.running.push((name.to_owned(), child));
    }

    pub fn start_appliance(&mut self, part: &'static str) {
        let peer = if part == "aa" { "10.82.0.2" } else { "10.82.0.1" };
        self.start_appliance_with(part, part, peer, &[]);
    }

    pub fn start_appliance_with(&mut self, name: &str, part: &str, peer: &str, more: &[&str]) {
        let (key, folder) = (self.path("key"), self.path(""));
        let mut args: Vec<&str> = "maelstrom up --lan lan --wan wan".split(' ').collect();
        args.extend(["--peer", peer, "--key", &key, "--name", name, "--run-dir", &folder]);
        args.extend(["--interleave", "1,19,41"]);
        args.extend(more);
        self.start(name, part, &args);
    }

    /// Ends a program at once, as a crash would.
    pub fn kill(&mut self, name: &str) {
        let at = self.running.iter().position(|(n, _)| n == name).expect("it runs");
        let (_, mut child) = self.running.remove(at);
        child.kill().expect("killed");
        child.wait().expect("gone");
    }

    /// Stops a program, or lets it go on.
    pub fn signal(&self, name: &str, signal: Signal) {
        let (_, child) = self.running.iter().find(|(n, _)| n == name).expect("it runs");
        kill_process(Pid::from_child(child), signal).expect("it runs");
    }

    /// Ends an appliance in good order.
    pub fn down(&mut self, name: &str) {
        run(Command::new(WELLSPRING).args([
            "maelstrom",
            "down",
            name,
            "--run-dir",
            &self.path(""),
        ]));
        let at = self.running.iter().position(|(n, _)| n == name).expect("it runs");
        let (_, mut child) = self.running.remove(at);
        assert!(child.wait().expect("ended").success(), "{name}");
    }

    pub fn status(&self, part: &str) -> Value {
        let output = Command::new(WELLSPRING)
            .args(["maelstrom", "status", part, "--json", "--run-dir", &self.path("")])
            .output()
            .expect("status");
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    pub fn number(&self, part: &str, path: &str) -> u64 {
        self.status(part).pointer(path).and_then(Value::as_u64).unwrap_or(0)
    }

    pub fn wait_until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        wait_until(|| what, || holds(self));
    }

    pub fn wait_for_peers(&self) {
        for part in ["aa", "ab"] {
            self.wait_until("a peer that is heard", |lab| lab.status(part)["peer_alive"] == true);
        }
    }

    /// Runs this program as a host: that test of it, by its path.
    pub fn host(&self, test: &str, part: &str, role: &str) -> Child {
        let (_, test) = test.split_once("::").expect("a path in this program");
        let own: PathBuf = std::env::current_exe().expect("this program");
        let mut command = self.inside(part, &own.to_string_lossy());
        command.args(["--exact", test, "--ignored", "--nocapture"]).env(ROLE, role);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("started");
        if role.starts_with("receive") {
            let out = child.stdout.as_mut().expect("piped");
            let mut said = Vec::new();
            let mut byte = [0];
            while !said.ends_with(b"ready\n") {
                assert_eq!(out.read(&mut byte).expect("read"), 1, "the host ended");
                said.push(byte[0]);
            }
        }
        child
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.link = None;
        for (_, child) in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
        for part in Self::PARTS {
            let _ = Command::new("ip").args(["netns", "del", &self.namespace(part)]).output();
        }
    }
}

/// The role of the host that this program runs as. The program ends in any case, whatever it waits for.
pub fn role() -> String {
    let role = std::env::var(ROLE).expect("started by a test, with a role");
    std::thread::spawn(|| {
        std::thread::sleep(2 * PATIENCE);
        eprintln!("the host has waited for too long");
        std::process::exit(1);
    });
    role
}

pub fn has_ipv6() -> bool {
    std::path::Path::new("/proc/sys/net/ipv6").exists()
}

pub fn run(command: &mut Command) {
    let output = command.output().expect("a program that exists");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What a receiving host has seen.
pub fn seen(output: &Output) -> u64 {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let after = text.split("seen ").nth(1).and_then(|rest| rest.split_whitespace().next());
    after.and_then(|number| number.parse().ok()).expect("a number")
}
