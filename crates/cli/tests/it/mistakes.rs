//! Typical mistakes: each has its exit status, names what it is about, and says what to do next.

use std::process::{Command, Output};

use crate::support::{Place, listing, program, text};

/// Runs the command with these arguments.
fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().expect("runs")
}

/// Runs it, and checks exit status and words on standard error.
#[track_caller]
fn assert_told(arguments: &[&str], status: i32, words: &[&str]) {
    let output = run(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{arguments:?}: no `{word}` in: {said}");
    }
}

#[test]
fn wrong_hosts_and_names() {
    let place = Place::new();
    let server = place.serve(&place.replica("a", b"x"), &[]);
    let (here, out) = (server.address.to_string(), place.dir("out"));
    let get = |from: &str, words: &[&str], status| {
        assert_told(&["get", from, "-o", text(&out), "--timeout", "0.3"], status, words);
    };
    get("no.such.host.invalid/object", &["no.such.host.invalid", "spelling"], 4);
    get(&format!("{here}/objct"), &["no object named objct", "below the directory"], 4);
    get(&here, &["HOST/OBJECT"], 2);
    get(&format!("{here}/../object"), &["bad object name"], 2);
    assert_eq!(listing(&out), [""; 0]);
    // Nobody listens there.
    let mut gone = place.serve(&place.dir("b"), &[]);
    let address = gone.address.to_string();
    gone.kill();
    get(&format!("{address}/object"), &[&address, "`wellspring serve`"], 4);
    // LTTP asks by TCP, whose port is closed.
    let lttp = ["get", "--protocol", "lttp", &format!("{address}/object"), "-o", text(&out)];
    assert_told(&lttp, 4, &[&address, "`wellspring serve`"]);
}

#[test]
fn symbols_of_a_protocol_without_a_code() {
    let get = ["get", "--protocol", "ndp", "127.0.0.1/x", "-o", "/dev/null"];
    for flag in ["--symbol-size", "--block-symbols"] {
        assert_told(&[&get[..], &[flag, "100"]].concat(), 2, &[flag, "NDP has no code"]);
    }
}

#[test]
fn options_of_one_object_with_a_directory_or_several_objects() {
    let digest = "0".repeat(64);
    for from in [&["127.0.0.1/x/"][..], &["127.0.0.1/x", "127.0.0.1/y"]] {
        for flag in [&["--no-resume"][..], &["--digest", &digest], &["--decoder", "elimination"]] {
            let get = [&["get", "--timeout", "0.3", "-o", "none"], from, flag].concat();
            assert_told(&get, 2, &[flag[0]]);
        }
    }
}

#[test]
fn priorities_that_there_are_not_or_of_a_protocol_that_has_none() {
    for command in [&["get", "127.0.0.1/x", "-o", "none"][..], &["put", "x", "127.0.0.1"]] {
        for nonsense in ["urgent", "Background", "3", ""] {
            let args = [command, &["--priority", nonsense]].concat();
            assert_told(&args, 2, &["--priority", "normal, background"]);
        }
    }
    for command in ["get", "put"] {
        let help = String::from_utf8(run(&[command, "--help"]).stdout).expect("text");
        assert!(help.contains("--priority <PRIORITY>"), "{help}");
    }
    for protocol in ["lttp", "ndp"] {
        let get = ["get", "127.0.0.1/x", "-o", "none", "--protocol", protocol];
        let get = [&get[..], &["--priority", "background"]].concat();
        assert_told(&get, 2, &["--priority needs --protocol scdp"]);
    }
}

#[test]
fn options_that_need_others() {
    assert_told(&["put", "x", "127.0.0.1", "--finish-rest"], 2, &["--finish-rest needs --quorum"]);
    assert_told(&["doctor", "127.0.0.1", "--interface", "lo"], 2, &["--interface needs --group"]);
}

#[test]
fn options_that_several_event_loops_do_not_go_with() {
    let serve = |others: &[&str], word: &str| {
        let arguments = [&["serve", "/nowhere", "--bind", "127.0.0.1:0"], others].concat();
        assert_told(&arguments, 2, &[word]);
    };
    for rate in ["10M", "none; 22:00-06:00 1G"] {
        for option in ["--rate", "--max-rate", "--receive-rate"] {
            let word = if option == "--receive-rate" { option } else { "--rate" };
            serve(&["--loops", "4", option, rate], &format!("{word} needs --loops 1"));
        }
    }
    for fabric in ["trimming", "dedicated"] {
        serve(&["--loops", "2", "--fabric", fabric], "--loops 2 needs --fabric shared");
    }
    serve(&["--loops", "2", "--inject-send-rate", "1G"], "loops is 2: several loops have no rate");
    serve(&["--loops", "0"], "--loops");
    serve(&["--loops", "65"], "1..=64");
}

#[test]
fn options_of_a_group_and_of_a_congestion_controller_where_there_is_none() {
    let group = ["--group", "239.255.47.11"];
    let wait = [&group[..], &["--stragglers", "wait"]].concat();
    let of_stragglers =
        ["--straggler-patience", "--straggler-rate", "--straggler-loss", "--deaf-after"];
    for flag in of_stragglers {
        let put = ["put", "x", "127.0.0.1", flag, "9"];
        assert_told(&put, 2, &[&format!("{flag} needs --group")]);
        let put = [&put[..], &wait].concat();
        assert_told(&put, 2, &[&format!("{flag} needs --stragglers detach")]);
    }
    for [flag, value] in [["--ttl", "2"], ["--interface", "lo"], ["--stragglers", "wait"]] {
        let put = ["put", "x", "127.0.0.1", flag, value];
        assert_told(&put, 2, &[&format!("{flag} needs --group")]);
    }
    let get = ["get", "127.0.0.1/x", "-o", "none", "--congestion", "bbr"];
    for fabric in ["trimming", "dedicated"] {
        let get = [&get[..], &["--fabric", fabric]].concat();
        assert_told(&get, 2, &["--congestion needs --fabric shared"]);
        let put = ["put", "x", "127.0.0.1", "--congestion", "bbr", "--fabric", fabric];
        assert_told(&put, 2, &["--congestion needs --fabric shared"]);
    }
    let ndp = [&get[..], &["--protocol", "ndp"]].concat();
    assert_told(&ndp, 2, &["--congestion needs --protocol scdp"]);
}

#[test]
fn options_of_an_appliance_that_need_others() {
    let up =
        ["maelstrom", "up", "--lan", "a", "--wan", "b", "--peer", "192.0.2.2", "--key", "none"];
    let refused = |more: &[&str], words: &str| assert_told(&[&up[..], more].concat(), 2, &[words]);
    refused(&["--split-connections", "8"], "--split-connections needs --mode split");
    refused(&["--split-buffer", "8"], "--split-buffer needs --mode split");
    refused(&["--cache", "4"], "--cache needs --cache-at");
    refused(&["--cache-at", "192.0.2.1:4712"], "--cache-at needs --cache");
    // What asks for a service is not passed over either where a file or a variable has it.
    let place = Place::new();
    let file = place.path("config.toml");
    for (line, words) in [
        ("cache = 4", "--cache needs --cache-at"),
        ("failover-peer = \"192.0.2.3:4801\"", "--failover-peer needs --failover-listen"),
    ] {
        std::fs::write(&file, format!("[maelstrom.up]\n{line}\n")).expect("written");
        refused(&["--config", text(&file)], words);
    }
    // There, how a service is to be says nothing while it is off: what is missing is the key.
    std::fs::write(&file, "[maelstrom.up]\nsplit-buffer = 8\ncache-age = 8\n").expect("written");
    assert_told(&[&up[..], &["--config", text(&file)]].concat(), 1, &["key file"]);
}

#[test]
fn folders_and_files_in_each_others_place() {
    let place = Place::new();
    let (folder, file) = (place.dir("folder"), place.path("file"));
    std::fs::write(&file, b"x").expect("written");
    let missing = place.path("missing");
    let put = |more: &[&str], words: &[&str]| {
        assert_told(&[&["put", text(&folder)], more].concat(), 2, words);
    };
    put(&["127.0.0.1/x", "--name", "y"], &["two names", "/x", "--name y"]);
    put(&["127.0.0.1/x", "127.0.0.1/y"], &["two names", "A,B,C/NAME"]);
    put(&["127.0.0.1", "--delete"], &["--delete", "--force"]);
    put(&["127.0.0.1/../x"], &["bad name"]);
    std::fs::write(&file, b"x").expect("written");
    assert_told(&["put", text(&file), "127.0.0.1", "--delete"], 2, &["--delete", "DIR HOST/NAME/"]);
    assert_told(&["put", "-", "127.0.0.1"], 2, &["no name", "put - HOST/NAME"]);
    assert_told(&["verify", text(&folder)], 2, &["HOST"]);
    assert_told(&["verify", text(&file), "--save", "-"], 2, &[text(&file), "not a directory"]);
    assert_told(&["put", text(&missing), "127.0.0.1"], 1, &[text(&missing), "Check the path"]);
    let pipe = place.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("runs").success());
    assert_told(&["put", text(&pipe), "127.0.0.1/x"], 1, &[text(&pipe), "put - HOST/NAME"]);
    assert_told(&["serve", "--bind", "127.0.0.1:0", text(&file)], 1, &[text(&file), "directory"]);
    assert_told(
        &["serve", "--bind", "127.0.0.1:0", text(&missing)],
        1,
        &[text(&missing), "Check the path"],
    );
    let out = missing.join("x");
    assert_told(&["fec", "encode", text(&file), "-o", text(&out)], 1, &[text(&missing), "first"]);
    assert_told(&["fec", "encode", text(&folder), "-o", text(&out)], 2, &[text(&folder)]);
    assert_told(&["demo", "--file", text(&missing)], 1, &[text(&missing), "Check the path"]);
}

#[test]
fn a_port_in_use() {
    let place = Place::new();
    let server = place.serve(&place.dir("a"), &[]);
    let here = server.address.to_string();
    assert_told(&["serve", "--bind", &here, text(&place.dir("b"))], 1, &[&here, "--bind"]);
}

/// Even root makes no files there.
#[cfg(target_os = "linux")]
#[test]
fn no_permission() {
    let place = Place::new();
    let file = place.path("file");
    std::fs::write(&file, b"x").expect("written");
    let server = place.serve(&place.replica("a", b"x"), &[]);
    let from = format!("{}/object", server.address);
    let forbidden = "/sys/kernel";
    assert_told(&["get", &from, "-o", &format!("{forbidden}/x")], 1, &[forbidden]);
    let encode = ["fec", "encode", text(&file), "-o", &format!("{forbidden}/x")];
    assert_told(&encode, 1, &[forbidden]);
    let key = ["maelstrom", "key", &format!("{forbidden}/x")];
    assert_told(&key, 1, &[forbidden]);
}

#[test]
fn misspelt_commands_and_flags() {
    assert_told(&["serv", "/srv"], 2, &["similar", "serve"]);
    assert_told(&["get", "a/b", "--forse"], 2, &["similar", "--force"]);
    assert_told(&["sim", "list"], 2, &["wellspring-lab"]);
    assert_told(&["fec", "bench"], 2, &["wellspring-lab"]);
    assert_told(&["get", "a/b", "--link-rate", "10X"], 2, &["10X", "500M"]);
}

#[test]
fn a_time_limit_beyond_what_servers_wait() {
    for command in [&["get", "127.0.0.1/x"][..], &["put", "x", "127.0.0.1"], &["serve", "."]] {
        let asked = [command, &["--timeout", "601"]].concat();
        assert_told(&asked, 2, &["0.2 to 600", "no server waits longer"]);
    }
}
