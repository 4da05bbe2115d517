//! A server as an operator has it: metrics and health, settings read again, an end in good order,
//! configuration file and environment.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::support::{
    Place, Server, Transfer, object_at, output, program, random_bytes, run, shown, text,
};
use rustix::process::Signal;

/// The status and the body that a server of metrics answers.
pub fn http(server: &Server, request: &str) -> (u16, String) {
    let address = server.listening["metrics"].as_str().expect("metrics");
    let mut stream = TcpStream::connect(address).expect("connected");
    let head = format!("{request} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    (status, body.to_owned())
}

/// A server by a configuration file with these lines below `[serve]`.
pub fn configured(place: &Place, lines: &str) -> Command {
    write_config(place, lines);
    let mut command = program();
    command.args(["serve", "--json", "--metrics", "127.0.0.1:0", "--config"]);
    command.arg(place.path("wellspring.toml"));
    command
}

pub fn write_config(place: &Place, lines: &str) {
    let (dir, cache) = (place.dir("a"), place.path("cache"));
    let file = format!(
        "[serve]\ndir = {:?}\nbind = \"127.0.0.1:0\"\ncache = {:?}\n{lines}\n",
        text(&dir),
        text(&cache)
    );
    std::fs::write(place.path("wellspring.toml"), file).expect("written");
}

/// The value of a metric on a page.
fn value(page: &str, name: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in:\n{page}")).parse().expect("a number")
}

#[test]
fn symbols_of_an_lt_code_count_as_neither_source_nor_repair() {
    let place = Place::new();
    let bytes = random_bytes(500_000, 1);
    let server = place.serve(&place.replica("a", &bytes), &["--metrics", "127.0.0.1:0"]);
    let out = place.path("out");
    run(&["get", "--protocol", "lttp", &object_at(&[&server]), "-o", text(&out)]).success();
    let (_, page) = http(&server, "GET /metrics");
    let sent =
        |kind: &str| value(&page, &format!("wellspring_symbols_sent_total{{kind=\"{kind}\"}}"));
    assert!(sent("lt") > 60.0, "{page}");
    assert_eq!([sent("source"), sent("repair")], [0.0; 2], "{page}");
}

#[test]
fn metrics_count_what_was_sent_and_refused() {
    let place = Place::new();
    let bytes = random_bytes(500_000, 1);
    let server = place.serve(&place.replica("a", &bytes), &["--metrics", "127.0.0.1:0"]);
    assert_eq!(http(&server, "GET /readyz"), (200, "ready\n".into()));
    assert_eq!(http(&server, "GET /healthz"), (200, "ok\n".into()));
    let out = place.path("out");
    run(&["get", &object_at(&[&server]), "-o", text(&out)]).success();
    server.wait_for("sent");
    let missing = format!("{}/missing", server.address);
    assert_eq!(run(&["get", &missing, "-o", text(&place.path("none"))]).code, Some(4));
    let (status, page) = http(&server, "GET /metrics");
    assert_eq!(status, 200);
    let value = |name: &str| value(&page, name);
    assert_eq!(value("wellspring_sends_ended_total{result=\"complete\"}"), 1.0);
    assert!(value("wellspring_refusals_total{reason=\"not_found\"}") >= 1.0);
    assert!(value("wellspring_sent_bytes_total") > 500_000.0);
    assert!(value("wellspring_symbols_sent_total{kind=\"source\"}") > 60.0);
    assert_eq!(value("wellspring_transfers{direction=\"send\"}"), 0.0);
    assert!(value("process_open_fds") < value("process_max_fds"));
    assert_eq!(http(&server, "GET /other").0, 404);
    assert_eq!(http(&server, "POST /metrics").0, 405);
    // No directory, no readiness; the server itself is well.
    std::fs::rename(place.path("a"), place.path("b")).expect("moved");
    assert_eq!(http(&server, "GET /readyz").0, 503);
    assert_eq!(http(&server, "GET /healthz").0, 200);
}

#[test]
fn settings_are_read_again_and_no_transfer_ends() {
    let place = Place::new();
    let bytes = random_bytes(2_000_000, 2);
    place.replica("a", &bytes);
    let mut command = configured(&place, "rate = \"100k\"");
    command.args(["--log-format", "json"]).stderr(Stdio::piped());
    let mut server = Server::start(command);
    let out = place.path("out");
    let fetch = Transfer::start(&["get", &object_at(&[&server]), "-o", text(&out)]);
    server.wait_for("sending");
    write_config(&place, "rate = \"100k\"\nallow-pot = true");
    server.signal(Signal::HUP);
    let failed = server.wait_for("reload_failed");
    assert!(failed["reason"].as_str().expect("text").contains("allow-put"), "{failed}");
    // Without the new rate the fetch would take minutes.
    write_config(&place, "allow-put = true");
    server.signal(Signal::HUP);
    let reloaded = server.wait_for("reloaded");
    assert_eq!((&reloaded["allow_put"], &reloaded["rate"]), (&true.into(), &().into()));
    fetch.end().success();
    assert!(std::fs::read(&out).expect("read") == bytes, "other bytes");
    run(&["put", text(&out), &server.address.to_string(), "--name", "again"]).success();
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    // Logs are JSON.
    let said = server.said();
    let line: serde_json::Value =
        said.lines().next().map(serde_json::from_str).expect("a line").expect(&said);
    assert!(line["message"].as_str().expect("text").contains("stay as they are"), "{line}");
    assert_eq!(line["level"], "WARN");
}

/// `setsid` gives it the terminal as its own: the kernel then says when that is closed.
#[cfg(target_os = "linux")]
#[test]
fn a_server_on_a_terminal_reads_its_settings_again_and_ends_when_the_terminal_is_closed() {
    let place = Place::new();
    let (shows, runs_on) = crate::terminal::open();
    let of_server = configured(&place, "");
    // Whoever runs the tests may ignore the signal, as by nohup.
    let mut command = Command::new("env");
    command
        .args(["--default-signal=HUP", "setsid", "--ctty"])
        .arg(of_server.get_program())
        .args(of_server.get_args());
    command.env("WELLSPRING_KEYS", "").stdin(runs_on);
    let mut server = Server::start(command);
    write_config(&place, "rate = \"1M\"");
    server.signal(Signal::HUP);
    assert_eq!(server.wait_for("reloaded")["rate"], 1_000_000);
    drop(shows);
    assert!(server.wait().success());
}

#[test]
fn a_schedule_that_is_read_again_counts_for_the_transfer_that_runs() {
    let place = Place::new();
    let bytes = random_bytes(2_000_000, 5);
    place.replica("a", &bytes);
    // All day long as slow, in two windows: the fetch would take minutes.
    let slow = "rate = \"none; 00:00-12:00 100k; 12:00-24:00 100k\"";
    let server = Server::start(configured(&place, slow));
    let out = place.path("out");
    let fetch = Transfer::start(&["get", &object_at(&[&server]), "-o", text(&out)]);
    server.wait_for("sending");
    write_config(&place, "rate = \"100k; 00:00-25:00 none\"");
    server.signal(Signal::HUP);
    let failed = server.wait_for("reload_failed");
    assert!(failed["reason"].as_str().expect("text").contains("00:00-25:00"), "{failed}");
    write_config(&place, "rate = \"100k; 00:00-24:00 none\"");
    server.signal(Signal::HUP);
    let reloaded = server.wait_for("reloaded");
    assert_eq!(reloaded["rate"], serde_json::Value::Null);
    assert_eq!(reloaded["schedule"], "100 kbit/s; 00:00-24:00 no limit");
    fetch.end().success();
    assert!(std::fs::read(&out).expect("read") == bytes, "other bytes");
    assert_eq!(server.wait_for("sent")["object"], "object");
}

#[test]
fn a_server_that_is_told_to_end_lets_transfers_end() {
    let place = Place::new();
    let bytes = random_bytes(2_000_000, 3);
    place.replica("a", &bytes);
    let mut server = Server::start(configured(&place, "rate = \"10M\"\ngrace = 100"));
    let out = place.path("out");
    let fetch = Transfer::start(&["get", &object_at(&[&server]), "-o", text(&out)]);
    server.wait_for("sending");
    server.signal(Signal::TERM);
    assert_eq!(server.wait_for("stopping")["grace_seconds"], 100);
    fetch.end().success();
    assert!(std::fs::read(&out).expect("read") == bytes, "other bytes");
    assert!(server.wait().success());
}

/// A directory is many transfers, one after the other.
#[test]
fn a_server_that_is_told_to_end_lets_directories_end() {
    let place = Place::new();
    let (from, there) = (place.dir("from"), place.dir("a/there"));
    for number in 0..12 {
        for folder in [&from, &there] {
            let bytes = random_bytes(400_000, number);
            std::fs::write(folder.join(format!("file{number}")), bytes).expect("written");
        }
    }
    let settings = "rate = \"16M\"\nreceive-rate = \"16M\"\nallow-put = true\ngrace = 100";
    let mut server = Server::start(configured(&place, settings));
    let got = place.path("got");
    let (fetch, put) = (
        Transfer::start(&["get", &format!("{}/there/", server.address), "-o", text(&got)]),
        Transfer::start(&["put", text(&from), &format!("{}/taken/", server.address)]),
    );
    server.wait_for("sending");
    server.wait_for("receiving");
    server.signal(Signal::TERM);
    server.wait_for("stopping");
    fetch.end().success();
    put.end().success();
    assert!(server.wait().success());
    for number in 0..12 {
        let name = format!("file{number}");
        let bytes = random_bytes(400_000, number);
        for folder in [&got, &place.path("a/taken")] {
            assert!(std::fs::read(folder.join(&name)).expect("there") == bytes, "{name}");
        }
    }
}

#[test]
fn a_server_that_ends_begins_nothing_and_a_second_signal_ends_it() {
    let place = Place::new();
    place.replica("a", &random_bytes(2_000_000, 4));
    let mut server = Server::start(configured(&place, "rate = \"100k\""));
    let out = place.path("out");
    let fetch =
        Transfer::start(&["get", &object_at(&[&server]), "-o", text(&out), "--timeout", "1"]);
    server.wait_for("sending");
    server.signal(Signal::TERM);
    server.wait_for("stopping");
    assert_eq!(http(&server, "GET /readyz").0, 503);
    assert_eq!(http(&server, "GET /healthz").0, 200);
    let other = run(&["get", &object_at(&[&server]), "-o", text(&place.path("other"))]);
    assert_eq!(other.code, Some(4), "{other:?}");
    assert!(other.text.contains("stopping"), "{other:?}");
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    assert_eq!(fetch.end().code, Some(6), "its only server is gone");
}

#[test]
fn the_command_line_comes_before_the_environment_and_that_before_the_file() {
    let place = Place::new();
    let print = |file: &std::path::Path, args: &[&str], environment: &[(&str, &str)]| {
        let mut command = program();
        command.args(["serve", "--print-config"]).args(args).env("WELLSPRING_CONFIG", file);
        let output = command.envs(environment.iter().copied()).output().expect("runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    write_config(&place, "max-puts = 1\nmax-parts = 1\nrate = \"1M\"\nallow-put = true");
    let file = place.path("wellspring.toml");
    let environment = [
        ("WELLSPRING_SERVE_MAX_PARTS", "2"),
        ("WELLSPRING_SERVE_MAX_PUTS", "2"),
        ("WELLSPRING_SERVE_ALLOW_PUT", "no"),
    ];
    let printed = print(&file, &["--max-puts", "3"], &environment);
    for line in [
        "max-puts = 3  # command line",
        "max-parts = 2  # WELLSPRING_SERVE_MAX_PARTS",
        "allow-put = false  # WELLSPRING_SERVE_ALLOW_PUT",
        "rate = \"1M\"  # file",
        "timeout = 10  # default; WELLSPRING_SERVE_TIMEOUT",
        "# metrics =  # not set; WELLSPRING_SERVE_METRICS",
    ] {
        assert!(printed.lines().any(|of| of == line), "no `{line}` in:\n{printed}");
    }
    // What is printed is a file that says the same.
    let again = place.path("again.toml");
    std::fs::write(&again, &printed).expect("written");
    let reprinted = print(&again, &[], &[]);
    let values = |text: &str| -> Vec<String> {
        let value = |line: &str| line.split("  # ").next().unwrap_or_default().to_owned();
        text.lines().filter(|line| !line.starts_with('#')).map(value).collect()
    };
    assert_eq!(values(&reprinted), values(&printed));
}

/// What a command says with these lines in its file and these variables, and its exit status.
fn with_settings(
    place: &Place,
    file: &str,
    environment: &[(&str, &str)],
    args: &[&str],
) -> (i32, String) {
    let path = place.path("settings.toml");
    std::fs::write(&path, file).expect("written");
    let mut command = program();
    command.args(args).env("WELLSPRING_CONFIG", path).envs(environment.iter().copied());
    let output = command.output().expect("runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().expect("no signal"), String::from_utf8(said).expect("UTF-8"))
}

#[test]
fn of_options_that_exclude_each_other_the_one_that_comes_before_counts() {
    let place = Place::new();
    let serve = ["serve", "--bind", "127.0.0.1:0", "/none"];
    let keys = [&serve[..], &["--keys", "/none/keys"]].concat();
    let open = [&serve[..], &["--insecure"]].concat();
    let verbose = [&open[..], &["-v"]].concat();
    // File, variable, command line, and what it then fails with: keys that are not there, or a directory.
    let (no_keys, no_directory) = ("no keys in /none/keys", "cannot serve /none");
    for (file, variable, args, words) in [
        ("insecure = true", "", &keys[..], no_keys),
        ("insecure = true\ninsecure-public = true", "", &keys[..], no_keys),
        ("", "WELLSPRING_SERVE_INSECURE=true", &keys[..], no_keys),
        ("", "WELLSPRING_SERVE_INSECURE=false", &keys[..], no_keys),
        ("keys = \"/none/keys\"", "WELLSPRING_SERVE_INSECURE=yes", &serve[..], no_directory),
        ("keys = \"/none/keys\"", "", &open[..], no_directory),
        ("", "WELLSPRING_SERVE_KEYS=/none/keys", &open[..], no_directory),
        ("", "WELLSPRING_QUIET=false", &verbose[..], no_directory),
    ] {
        let variables: Vec<_> = variable.split_once('=').into_iter().collect();
        let file = format!("[serve]\n{file}");
        let (status, said) = with_settings(&place, &file, &variables, args);
        assert!(status != 0 && said.contains(words), "{file} {variable} {args:?}: {said}");
    }
    let both = "[serve]\nkeys = \"/none/keys\"\ninsecure = true";
    let (status, said) = with_settings(&place, both, &[], &serve);
    assert_eq!(status, 2, "{said}");
    for word in ["settings.toml", "`serve.insecure`", "`serve.keys`"] {
        assert!(said.contains(word), "no {word} in {said}");
    }
    // By the command line alone as ever.
    let (status, said) =
        with_settings(&place, "", &[], &[&open[..], &["--keys", "/none/keys"]].concat());
    assert!(status == 2 && said.contains("cannot be used with"), "{said}");
}

#[test]
fn settings_for_other_calls_fail_none() {
    let place = Place::new();
    let bytes = random_bytes(3_000, 6);
    let server = place.serve(&place.replica("a", &bytes), &["--allow-put"]);
    let (here, from) = (server.address.to_string(), object_at(&[&server]));
    let out = place.path("out");
    let get = ["get", &from, "-o", text(&out), "--force"];
    let fetched = |file: &str, environment: &[(&str, &str)]| {
        let (status, said) = with_settings(&place, file, environment, &get);
        assert_eq!(status, 0, "{file} {environment:?}: {said}");
    };
    fetched("[get]\nexclude = [\"*.tmp\"]\natomic = true\ndecoder = \"elimination\"", &[]);
    fetched("[get]\nno-resume = true", &[("WELLSPRING_GET_DELETE", "true")]);
    fetched("[get]\npriority = \"background\"", &[]);
    fetched("[get]\nprotocol = \"ndp\"", &[("WELLSPRING_GET_PRIORITY", "background")]);
    let (status, said) = with_settings(&place, "[get]\npriority = \"urgent\"", &[], &get);
    assert!(status == 2 && said.contains("get.priority"), "{said}");
    // It would fetch where nothing is to be done.
    let (status, said) = with_settings(&place, "[get]\ndry-run = true", &[], &get);
    assert!(status == 2 && said.contains("--dry-run"), "{said}");
    let (status, said) = with_settings(&place, "", &[], &[&get[..], &["--exclude", "x"]].concat());
    assert!(status == 2 && said.contains("--exclude goes with a directory"), "{said}");

    let put = |name: &str, file: &str, environment: &[(&str, &str)], more: &[&str]| {
        let args = ["put", text(&out), &here, "--name", name];
        let (status, said) = with_settings(&place, file, environment, &[&args[..], more].concat());
        assert_eq!(status, 0, "{file} {environment:?}: {said}");
    };
    put("b", "", &[("WELLSPRING_PUT_FINISH_REST", "false")], &[]);
    put("c", "", &[("WELLSPRING_PUT_FINISH_REST", "true")], &[]);
    put("d", "[put]\nquorum = 1", &[], &["--finish-rest"]);
    put("f", "[put]\npriority = \"background\"", &[], &[]);
    put("e", "[put]\nttl = 2\ndeaf-after = 900\nstragglers = \"wait\"", &[], &[]);
    let directory = place.dir("tree");
    let (from, to) = (text(&directory), format!("{here}/tree/"));
    let (status, said) = with_settings(&place, "[put]\nno-resume = true", &[], &["put", from, &to]);
    assert_eq!(status, 0, "{said}");
}

#[test]
fn a_server_without_temporary_files_says_so() {
    let place = Place::new();
    let mut command = configured(&place, "");
    command.env("TMPDIR", "/none").stderr(Stdio::piped());
    let mut server = Server::start(command);
    server.interrupt();
    let said = server.said();
    assert!(said.contains("/none") && said.contains("TMPDIR"), "{said}");
}

#[test]
fn mistakes_beside_the_command_line_say_where_they_stand() {
    let place = Place::new();
    let fails = |lines: &str, variable: (&str, &str), words: &[&str]| {
        let output = configured(&place, lines).env(variable.0, variable.1).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{words:?} in {said}");
    };
    let none = ("WELLSPRING_SERVE_RATE", "1M");
    fails("alow-put = true", none, &["wellspring.toml", "serve.alow-put", "`allow-put`"]);
    fails("max-puts = \"many\"", none, &["many", "`serve.max-puts` stands in", "wellspring.toml"]);
    fails("", ("WELLSPRING_SERVE_RATE", "fast"), &["fast", "WELLSPRING_SERVE_RATE"]);
    fails("allow-overwrite = true", none, &["--allow-overwrite needs --allow-put"]);
    fails("max-puts = ", none, &["wellspring.toml", "line"]);
}

#[test]
fn a_directory_that_is_too_deep_to_be_looked_at_as_a_whole_is_not_said_to_be_clean() {
    let place = Place::new();
    let dir = place.dir("dir");
    std::fs::create_dir_all(dir.join(["d"; 34].join("/"))).expect("made");
    let cut = output(&["clean", text(&dir), "--json"]);
    assert!(!cut.status.success(), "{cut:?}");
    assert!(shown(&cut.stdout).contains("\"looked_at_all\":false"), "{cut:?}");
    assert!(shown(&cut.stderr).contains("one by one"), "{cut:?}");
    let all = output(&["clean", text(&dir.join("d/d")), "--json"]);
    assert!(all.status.success() && shown(&all.stdout).contains(":true"), "{all:?}");
}
