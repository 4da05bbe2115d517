//! The command under keys: what two hosts and a cluster type, and who is refused.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::support::{Place, program, random_bytes, text};

struct Ended {
    status: i32,
    out: String,
    err: String,
}

fn run(command: &mut Command) -> Ended {
    let output = command.output().expect("runs");
    Ended {
        status: output.status.code().expect("no signal"),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A command of the host whose keys lie in that directory.
fn of(keys: &Path, arguments: &[&str]) -> Ended {
    run(program().env("WELLSPRING_KEYS", keys).args(arguments))
}

fn done(keys: &Path, arguments: &[&str]) -> String {
    let ended = of(keys, arguments);
    assert_eq!(ended.status, 0, "{arguments:?}: {}", ended.err);
    ended.out
}

fn new_key(keys: &Path) -> String {
    let out = done(keys, &["key", "new"]);
    out.lines().next().expect("a line").to_owned()
}

#[test]
fn a_quota_is_given_with_the_rights_shown_and_named_when_it_is_used_up() {
    let place = Place::new();
    let served = place.replica("served", &random_bytes(10, 1));
    let (server, client) = (place.path("s/keys"), place.path("c/keys"));
    let (server_key, client_key) = (new_key(&server), new_key(&client));
    let quota = ["--max-sessions", "8", "--max-bytes", "1k", "--max-files", "5"];
    let trust = ["key", "trust", "alice", &client_key, "--read", "--put"];
    done(&server, &[&trust[..], &quota].concat());
    done(&client, &["key", "trust", "server", &server_key, "--serve"]);
    let words = "read put max-sessions=8 max-bytes=1K max-files=5";
    let shown = [done(&server, &["key", "show"]), done(&server, &["key", "show", "--json"])];
    assert!(shown.iter().all(|shown| shown.contains(words)), "{shown:?}");
    let alone = of(&server, &["key", "trust", "bob", &server_key, "--max-files", "5"]);
    assert!(alone.status == 2 && alone.err.contains("trusted with nothing"), "{}", alone.err);
    let address = ["--read", "--at", "192.0.2.7"];
    let no_server = of(&server, &[&["key", "trust", "bob", &server_key][..], &address].concat());
    assert!(
        no_server.status == 2 && no_server.err.contains("--at needs --serve"),
        "{}",
        no_server.err
    );
    let serving = place.serve(&served, &["--allow-put", "--keys", text(&server)]);
    let address = serving.address.to_string();
    let file = place.path("file");
    std::fs::write(&file, [7; 900]).expect("written");
    done(&client, &["put", text(&file), &address, "--name", "a"]);
    let refused = of(&client, &["put", text(&file), &address, "--name", "b"]);
    assert!(
        refused.status == 4
            && refused.err.contains("quota max-bytes=1K of key alice: it has 900 bytes there")
            && refused.err.contains("ask the server's operator for more"),
        "{}",
        refused.err
    );
    let trusted = server.join("trusted");
    let line = std::fs::read_to_string(&trusted).expect("a file").replace("max-bytes", "max-byte");
    std::fs::write(&trusted, line).expect("written");
    let misspelt = of(&server, &["key", "show"]);
    assert!(
        misspelt.status != 0
            && misspelt.err.contains("line 2")
            && misspelt.err.contains("`max-bytes=SIZE`"),
        "{}",
        misspelt.err
    );
    let by_address =
        run(program().args(["serve", "--address-quota", "max-bytes=0", text(&served)]));
    assert!(
        by_address.status == 2 && by_address.err.contains("takes a size from 1"),
        "{}",
        by_address.err
    );
}

#[test]
fn two_hosts_trust_each_other_and_nobody_else() {
    let place = Place::new();
    let bytes = random_bytes(2_000_000, 1);
    let served = place.replica("served", &bytes);
    std::fs::create_dir(served.join("incoming")).expect("directory");
    let (server, client, stranger) =
        (place.path("s/keys"), place.path("c/keys"), place.path("x/keys"));
    let (server_key, client_key, stranger_key) =
        (new_key(&server), new_key(&client), new_key(&stranger));
    let again = of(&server, &["key", "new"]);
    let says = |what| again.err.contains(what);
    assert!(again.status == 8 && says("is kept") && says("key show"), "{}", again.err);
    done(&server, &["key", "trust", "alice", &client_key, "--read", "--put=incoming"]);
    done(&client, &["key", "trust", "server", &server_key, "--serve"]);
    done(&stranger, &["key", "trust", "server", &server_key, "--serve"]);
    let shown = done(&server, &["key", "show", "--json"]);
    assert!(
        shown.contains(&client_key) && shown.contains(&server_key) && !shown.contains("wsec-"),
        "{shown}"
    );
    let serving = place.serve(&served, &["--allow-put", "--keys", text(&server)]);
    let address = serving.address.to_string();
    let object = format!("{address}/object");
    let output = place.path("output");
    done(&client, &["get", &object, "-o", text(&output)]);
    assert!(std::fs::read(&output).expect("read") == bytes);
    done(&client, &["put", text(&output), &address, "--name", "incoming/y"]);
    assert!(std::fs::read(served.join("incoming/y")).expect("read") == bytes);
    let refused = of(&client, &["put", text(&output), &address, "--name", "y"]);
    assert!(
        refused.status == 4
            && refused.err.contains("alice")
            && refused.err.contains("no right to put y"),
        "{}",
        refused.err
    );
    let refused = of(&stranger, &["get", &object, "-o", text(&place.path("no"))]);
    let hint = format!("wellspring key trust NAME {stranger_key} --read");
    assert!(refused.status == 4 && refused.err.contains(&hint), "{}", refused.err);
    let without = run(program().args(["get", &object, "-o", text(&place.path("no"))]));
    assert!(without.status == 4 && without.err.contains("only with keys"), "{}", without.err);
    assert!(!place.path("no").exists());
    let by_lttp = place.path("lttp");
    let lttp = of(&client, &["get", &object, "--protocol", "lttp", "-o", text(&by_lttp)]);
    assert!(lttp.status == 0, "{}", lttp.err);
    assert!(std::fs::read(by_lttp).expect("read") == bytes);
}

/// One server all the time: it reads its keys again after each step.
#[test]
fn a_cluster_shares_one_file_and_changes_its_key_without_a_restart() {
    let place = Place::new();
    let served = place.replica("served", &random_bytes(500_000, 2));
    let (server, client) = (place.path("s"), place.path("c"));
    done(&server, &["key", "new", "--cluster"]);
    let copy = || {
        std::fs::create_dir_all(&client).expect("directory");
        let _ = std::fs::remove_file(client.join("cluster"));
        std::fs::copy(server.join("cluster"), client.join("cluster")).expect("copy");
    };
    copy();
    let serving = place.serve(&served, &["--keys", text(&server)]);
    let object = format!("{}/object", serving.address);
    let mut step = 0;
    let mut fetch = || {
        step += 1;
        serving.signal(Signal::HUP);
        serving.wait_for("reloaded");
        let output = place.path(&format!("out-{step}"));
        of(&client, &["get", &object, "-o", text(&output)]).status
    };
    assert_eq!(fetch(), 0);
    done(&server, &["key", "change", "add"]);
    assert_eq!(fetch(), 0, "the client has only the old one");
    copy();
    done(&server, &["key", "change", "use"]);
    assert_eq!(fetch(), 0, "the client uses the old one");
    copy();
    done(&server, &["key", "change", "end"]);
    assert_eq!(fetch(), 0, "the client uses the new one");
    done(&server, &["key", "change", "add"]);
    done(&server, &["key", "change", "use"]);
    done(&server, &["key", "change", "end"]);
    assert_eq!(fetch(), 4, "two changes behind");
}

#[test]
fn without_keys_a_server_stays_on_loopback_unless_it_says_insecure() {
    let place = Place::new();
    let served = place.replica("served", b"x");
    let refused = |arguments: &[&str], status: i32, part: &str| {
        let ended = run(program().args(arguments).arg(&served));
        assert!(
            ended.status == status && ended.err.contains(part),
            "{arguments:?}: {} {}",
            ended.status,
            ended.err
        );
    };
    refused(&["serve", "--bind", "0.0.0.0:0"], 2, "--insecure");
    refused(&["serve", "--insecure", "--bind", "203.0.113.1:0"], 2, "--insecure-public");
    // Documentation's address is nobody's: with both flags it is the system that refuses.
    refused(
        &["serve", "--insecure", "--insecure-public", "--bind", "203.0.113.1:0"],
        1,
        "WARNING: --insecure",
    );
    refused(&["serve", "--keys", text(&place.path("none"))], 2, "no keys");
    let serving = place.serve(&served, &[]);
    assert!(serving.address.ip().is_loopback());
}

#[test]
fn a_directory_without_keys_that_the_variable_names_is_no_consent_to_go_without() {
    let place = Place::new();
    let serving = place.serve(&place.replica("served", b"x"), &["--insecure", "--allow-put"]);
    let (empty, file, out) = (place.dir("empty"), place.path("secret"), place.path("out"));
    std::fs::write(&file, b"secret").expect("written");
    let host = serving.address.to_string();
    let object = format!("{host}/object");
    let get = ["get", &object, "-o", text(&out)];
    let commands = [&["put", text(&file), &host][..], &get, &["stat", &object]];
    for (command, keys) in commands.into_iter().flat_map(|c| [(c, &empty), (c, &out)]) {
        let refused = of(keys, command);
        assert_eq!(refused.status, 2, "{command:?}: {}", refused.err);
        for part in ["no keys in", "WELLSPRING_KEYS", "wellspring key new", "--insecure"] {
            assert!(refused.err.contains(part), "{command:?}: {}", refused.err);
        }
    }
    assert!(!place.path("served/secret").exists() && !out.exists());
    let aloud = of(&empty, &[&get[..], &["--insecure"]].concat());
    assert!(aloud.status == 0 && aloud.err.contains("WARNING"), "{}", aloud.err);
}

#[test]
fn a_key_that_others_can_read_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let keys = place.path("keys");
    new_key(&keys);
    std::fs::set_permissions(keys.join("key"), std::fs::Permissions::from_mode(0o644))
        .expect("mine");
    let ended = of(&keys, &["get", "127.0.0.1:9/x", "-o", text(&place.path("no"))]);
    assert!(ended.status == 1 && ended.err.contains("chmod 600"), "{}", ended.err);
    let nothing = of(&place.path("other"), &["key", "trust", "a", "wpub-00", "--read"]);
    assert_eq!(nothing.status, 2);
}

#[test]
fn without_keys_no_command_speaks_to_another_machine_unless_told_to() {
    let place = Place::new();
    let (file, out, empty) = (place.path("secret"), place.path("out"), place.dir("empty"));
    std::fs::write(&file, b"secret").expect("written");
    // An address of a network for documentation, where nobody answers.
    let (host, object, tree) = ("192.0.2.1:9", "192.0.2.1:9/object", "192.0.2.1:9/tree/");
    let commands = [
        &["get", object, "-o", text(&out)][..],
        &["get", "--protocol", "lttp", object, "-o", text(&out)],
        &["get", tree, "-o", text(&out)],
        &["get", object, "192.0.2.1:9/other", "-o", text(&out)],
        &["put", text(&file), host],
        &["put", text(&empty), host],
        &["ls", tree],
        &["stat", object],
        &["stat", tree],
        &["verify", text(&empty), tree],
        &["doctor", host],
    ];
    for arguments in commands {
        let mut command = program();
        // As where nobody has a home, and where it holds no keys.
        match arguments.len() % 2 {
            0 => command.env_remove("HOME").env_remove("XDG_CONFIG_HOME"),
            _ => command.env("XDG_CONFIG_HOME", &empty),
        };
        command.env_remove("WELLSPRING_KEYS").args(arguments).args(["--timeout", "0.2"]);
        let refused = run(&mut command);
        assert_eq!(refused.status, 2, "{arguments:?}: {}", refused.err);
        for part in ["another machine", "wellspring key new", "key trust", "--insecure"] {
            assert!(refused.err.contains(part), "{arguments:?}: {}", refused.err);
        }
        let told = run(command.arg("--insecure"));
        assert!(![0, 2].contains(&told.status), "{arguments:?}: {}", told.err);
        assert!(told.err.contains("WARNING"), "{arguments:?}: {}", told.err);
    }
    assert!(!out.join("object").exists());
    let mut by_variable = program();
    by_variable.env("WELLSPRING_STAT_INSECURE", "1").args(["stat", object, "--timeout", "0.2"]);
    assert_eq!(run(&mut by_variable).status, 4);
}

#[test]
fn whom_a_host_trusts_is_of_no_use_without_a_key_of_its_own() {
    let place = Place::new();
    let (server, client) = (place.path("s/keys"), place.path("c/keys"));
    let server_key = new_key(&server);
    let serving = place.serve(&place.replica("served", b"x"), &[]);
    done(&client, &["key", "trust", "server", &server_key, "--serve"]);
    let object = format!("{}/object", serving.address);
    let out = place.path("out");
    let get = ["get", &object, "-o", text(&out)];
    for (keys, home) in [(Some(&client), None), (None, Some(place.path("c")))] {
        let mut command = program();
        match (keys, &home) {
            (Some(keys), _) => command.env("WELLSPRING_KEYS", keys),
            (None, _) => command.env_remove("WELLSPRING_KEYS"),
        };
        if let Some(home) = &home {
            std::fs::rename(&client, home.join("wellspring")).expect("renamed");
            command.env("XDG_CONFIG_HOME", home);
        }
        let refused = run(command.args(get));
        let says = refused.err.contains("no key of this host") && refused.err.contains("key new");
        assert!(refused.status == 2 && says, "{}", refused.err);
    }
    new_key(&place.path("c/wellspring"));
}

#[test]
fn a_folder_without_a_name_is_no_right_to_everything() {
    let place = Place::new();
    let keys = place.path("keys");
    let key = new_key(&place.path("other"));
    for right in ["--put=", "--read=", "--put=/", "--read=//"] {
        let refused = of(&keys, &["key", "trust", "alice", &key, "--serve", right]);
        assert_eq!(refused.status, 2, "{right}: {}", refused.err);
        assert!(
            refused.err.contains(right) && refused.err.contains("without a name"),
            "{}",
            refused.err
        );
    }
    let all = done(&keys, &["key", "trust", "alice", &key, "--read", "--put=in"]);
    assert!(all.contains("read put=in"), "{all}");
    std::fs::write(keys.join("trusted"), format!("peer alice {key} read put=")).expect("written");
    let refused = of(&keys, &["key", "show"]);
    assert!(refused.status == 1 && refused.err.contains("line 1: `put=`"), "{}", refused.err);
}
