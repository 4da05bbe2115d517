//! Directories and many objects with the real binary over loopback.

use std::io::Write;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use wellspring_testkit::wait::wait_until;

use crate::support::{
    Place, Transfer, listing, output, program, random_bytes, run, shown, text, write,
};

#[test]
fn a_directory_is_listed_fetched_and_fetched_again() {
    let place = Place::new();
    let served = place.dir("served");
    write(&served, "d/a", b"first");
    write(&served, "d/e/b", b"second");
    write(&served, "c", b"third");
    let server = place.serve(&served, &[]);
    let (root, directory) = (format!("{}/", server.address), format!("{}/d/", server.address));
    let ls = output(&["ls", &root]);
    assert_eq!(shown(&ls.stdout), "c\nd/\n", "{}", shown(&ls.stderr));
    let ls = shown(&output(&["ls", "--digests", &directory]).stdout);
    let digest = blake3::hash(b"first").to_hex();
    assert!(ls.lines().next().is_some_and(|l| l.contains(digest.as_str()) && l.ends_with(" a")));
    let to = place.path("here");
    let fetched = run(&["get", &directory, "-o", text(&to)]).success().summary;
    assert_eq!((fetched["files"].as_u64(), fetched["files_fetched"].as_u64()), (Some(2), Some(2)));
    assert_eq!(std::fs::read(to.join("e/b")).expect("read"), b"second");
    write(&served, "d/a", b"changed");
    let dry = output(&["get", &directory, "-o", text(&to), "--dry-run"]);
    assert_eq!(shown(&dry.stdout), "fetch   a (7 B)\n");
    assert_eq!(std::fs::read(to.join("a")).expect("read"), b"first");
    let again = run(&["get", &directory, "-o", text(&to)]).success().summary;
    assert_eq!(again["files_fetched"], 1);
    assert_eq!(std::fs::read(to.join("a")).expect("read"), b"changed");
    let none = run(&["get", &format!("{}/none/", server.address), "-o", text(&to)]);
    assert_eq!(none.code, Some(4), "{none:?}");
}

#[test]
fn a_fetch_that_is_killed_goes_on() {
    let place = Place::new();
    let served = place.dir("served");
    for number in 0..100 {
        write(&served, &format!("{number}"), &random_bytes(200_000, number));
    }
    write(&served, "large", &random_bytes(20_000_000, 1_000));
    let server = place.serve(&served, &["--inject-send-rate", "200M"]);
    let (root, to) = (format!("{}/", server.address), place.path("here"));
    let killed = Transfer::start(&["get", &root, "-o", text(&to)]);
    let done = killed.wait_for_part(0.6);
    killed.kill();
    let ended = run(&["get", &root, "-o", text(&to)]).success();
    let count = |name: &str| ended.summary[name].as_u64().expect("a number");
    let moved = count("bytes_fetched") - count("bytes_resumed");
    // Moved twice are the file of each pack that was not complete, and blocks behind it or behind a block that was missing.
    let lost = 4 * (200_000 + 3 * 819_200);
    assert!(done + moved <= 40_000_000 + lost, "{done} bytes were there, {moved} moved: {ended:?}");
    assert!(count("bytes_resumed") > 0, "the large file went on: {ended:?}");
    let mut names = listing(&served);
    names.sort();
    assert_eq!(listing(&to), names, "no part file is left");
    for name in names {
        let read = |dir: &Path| std::fs::read(dir.join(&name)).expect("read");
        assert!(read(&served) == read(&to), "{name}");
    }
}

#[test]
fn many_objects_come_by_one_call_and_those_that_are_missing_are_named() {
    let place = Place::new();
    let served = place.dir("served");
    for number in 0..50 {
        write(&served, &format!("d/{number}"), &random_bytes(4_096, number));
    }
    write(&served, "large", &random_bytes(2_000_000, 99));
    write(&served, "void", b"");
    let server = place.serve(&served, &[]);
    let at = |name: &str| format!("{}/{name}", server.address);
    let to = place.dir("here");
    let mut child = program()
        .args(["get", "--from", "-", &at("large"), &at("void"), "--json", "-o", text(&to)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let list: String = (0..50).map(|number| at(&format!("d/{number}")) + "\n").collect();
    child.stdin.take().expect("piped").write_all(list.as_bytes()).expect("written");
    let ended = child.wait_with_output().expect("ends");
    assert!(ended.status.success(), "{}", shown(&ended.stdout));
    assert_eq!(listing(&to).len(), 52);
    for number in 0..50 {
        let bytes = std::fs::read(to.join(number.to_string())).expect("read");
        assert!(bytes == random_bytes(4_096, number), "{number}");
    }
    let exists = run(&["get", &at("d/1"), &at("d/2"), "-o", text(&to)]);
    assert_eq!(exists.code, Some(8), "{exists:?}");
    let other = place.dir("other");
    let missing = run(&["get", &at("d/1"), &at("d/none"), &at("no/where"), "-o", text(&other)]);
    assert_eq!(missing.code, Some(4), "{missing:?}");
    assert_eq!(
        (&missing.summary["objects"], &missing.summary["objects_failed"]),
        (&3.into(), &2.into())
    );
    assert!(
        missing.text.contains("d/none") && missing.text.contains("no/where"),
        "{}",
        missing.text
    );
    assert_eq!(listing(&other), ["1"]);
}

#[test]
fn of_several_objects_one_that_somebody_makes_meanwhile_is_not_replaced() {
    let place = Place::new();
    let (served, to) = (place.dir("served"), place.dir("here"));
    for (seed, name) in ["x", "y"].into_iter().enumerate() {
        write(&served, name, &random_bytes(2_000_000, seed as u64));
    }
    let server = place.serve(&served, &["--inject-send-rate", "8M"]);
    let [x, y] = ["x", "y"].map(|name| format!("{}/{name}", server.address));
    let running = Transfer::start(&["get", &x, &y, "-o", text(&to)]);
    running.wait_for_part(0.01);
    write(&to, "y", b"mine");
    let ended = running.end();
    assert_eq!((ended.code, &ended.summary["objects_failed"]), (Some(8), &1.into()), "{ended:?}");
    assert!(ended.text.contains("y exists"), "{}", ended.text);
    assert_eq!(std::fs::read(to.join("y")).expect("read"), b"mine");
    assert!(std::fs::read(to.join("x")).expect("read") == random_bytes(2_000_000, 0));
}

#[test]
fn objects_in_place_whose_bytes_alone_are_wrong_are_replaced_by_force() {
    let place = Place::new();
    let (served, to) = (place.dir("served"), place.path("here"));
    for name in ["d/x", "d/y", "d/z"] {
        write(&served, name, &random_bytes(50_000, 7));
    }
    let server = place.serve(&served, &[]);
    let at = ["x", "y", "z"].map(|name| format!("{}/d/{name}", server.address));
    let get = |with: &[&str]| {
        run(&[&["get", &at[0], &at[1], &at[2], "-o", text(&to)][..], with].concat()).success()
    };
    get(&[]);
    let decay = |name: &str| {
        let path = to.join(name);
        let time = path.metadata().expect("stat").modified().expect("a time");
        let mut bytes = std::fs::read(&path).expect("read");
        bytes[40_000] ^= 1;
        std::fs::write(&path, bytes).expect("write");
        let file = std::fs::File::options().write(true).open(&path).expect("open");
        file.set_modified(time).expect("a time");
    };
    decay("x");
    // One of which the mode is another, too, which is set without moving it.
    decay("y");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(to.join("y"), mode).expect("a mode");
    assert_eq!(get(&["--force"]).summary["objects_fetched"], 2);
    for name in ["x", "y", "z"] {
        let read = std::fs::read(to.join(name)).expect("read");
        assert!(read == random_bytes(50_000, 7), "{name}");
    }
}

#[test]
fn objects_come_from_replicas_whose_directories_differ_in_what_is_not_asked_for() {
    let place = Place::new();
    let served = [place.dir("s1"), place.dir("s2")];
    for (index, dir) in served.iter().enumerate() {
        for name in ["d/x", "d/y"] {
            write(dir, name, &random_bytes(300_000, 7));
            let file = std::fs::File::open(dir.join(name)).expect("open");
            let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 + index as u64);
            file.set_modified(modified).expect("set");
        }
        write(dir, &format!("d/log-{index}"), &random_bytes(10, 1));
        write(dir, "d/other", &random_bytes(1_000, index as u64));
    }
    let servers = served.each_ref().map(|dir| place.serve(dir, &[]));
    let at = |name: &str| format!("{},{}/d/{name}", servers[0].address, servers[1].address);
    let to = place.dir("here");
    let ended = run(&["get", &at("x"), &at("y"), "-o", text(&to)]).success();
    assert_eq!(ended.summary["objects_fetched"], 2);
    for name in ["x", "y"] {
        assert!(std::fs::read(to.join(name)).expect("read") == random_bytes(300_000, 7), "{name}");
    }
    // One host alone has it; of the other one each has other bytes.
    let other = place.dir("there");
    let ended = run(&["get", &at("log-0"), &at("other"), &at("none"), "-o", text(&other)]);
    assert_eq!((ended.code, listing(&other)), (Some(4), vec!["log-0".to_owned()]), "{ended:?}");
    assert!(ended.text.contains("the replicas of d/other differ"), "{}", ended.text);
}

#[test]
fn a_host_that_is_silent_holds_up_no_object_of_another() {
    let place = Place::new();
    let served = place.dir("served");
    write(&served, "object", &random_bytes(100_000, 1));
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    // Named behind the silent one, in whatever order they are taken.
    let server = place.serve_at(&served, "127.0.0.2:0", &[]);
    let to = place.dir("here");
    let first = format!("{}/other", silent.local_addr().expect("bound"));
    let second = format!("{}/object", server.address);
    let fetch = Transfer::start(&["get", &first, &second, "-o", text(&to), "--timeout", "600"]);
    wait_until(|| "the other host's object is here", || to.join("object").exists());
    fetch.interrupt();
    let ended = fetch.end();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(std::fs::read(to.join("object")).expect("read") == random_bytes(100_000, 1));
}

#[test]
fn a_directory_is_put_killed_put_again_and_mirrored() {
    let place = Place::new();
    let here = place.dir("here");
    for number in 0..100 {
        write(&here, &format!("d/{number}"), &random_bytes(50_000, number));
    }
    write(&here, "large", &random_bytes(20_000_000, 1_000));
    let served = [place.dir("s1"), place.dir("s2")];
    let flags = ["--allow-put", "--allow-overwrite"];
    let servers = served.each_ref().map(|dir| place.serve(dir, &flags));
    let to = format!("{},{}/t/", servers[0].address, servers[1].address);
    let slow = ["--inject-send-rate", "100M"];
    let killed = Transfer::start(&[&["put", text(&here), &to][..], &slow].concat());
    killed.wait_for_part(0.6);
    killed.kill();
    let ended = run(&["put", text(&here), &to]).success();
    let lacked = |host: usize| ended.summary["receivers"][host]["files_lacked"].as_u64();
    let least = lacked(0).min(lacked(1)).expect("a number");
    assert!(least < 101, "what was there was not sent again: {ended:?}");
    assert_eq!(ended.summary["receivers_complete"], 2);
    let names = (0..100).map(|number| format!("d/{number}")).chain(["large".to_owned()]);
    let names: Vec<String> = names.collect();
    for dir in served.iter().map(|dir| dir.join("t")) {
        assert_eq!(listing(&dir), ["d", "large"], "no part file is left");
        assert_eq!(listing(&dir.join("d")).len(), 100, "nor here");
        for name in &names {
            let read = |dir: &Path| std::fs::read(dir.join(name)).expect("read");
            assert!(read(&here) == read(&dir), "{name}");
        }
    }
    let again = run(&["put", text(&here), &to]).success().summary;
    assert_eq!((&again["files"], &again["files_sent"]), (&101.into(), &0.into()));

    write(&here, "d/5", b"changed");
    std::fs::remove_file(here.join("d/6")).expect("removed");
    let refused = run(&["put", text(&here), &to]);
    assert_eq!(refused.code, Some(8), "{refused:?}");
    assert!(refused.text.contains("d/5") && refused.text.contains("--force"), "{}", refused.text);
    let mirror = ["put", text(&here), &to, "--force", "--delete"];
    let dry = output(&[&mirror[..], &["--dry-run"]].concat());
    assert_eq!(shown(&dry.stdout), "send    d/5 (7 B)\nremove  d/6\n");
    let mirrored = run(&mirror).success().summary;
    assert_eq!(
        (&mirrored["files_sent"], &mirrored["receivers"][0]["removed"]),
        (&1.into(), &1.into())
    );
    assert_eq!(std::fs::read(served[1].join("t/d/5")).expect("read"), b"changed");
    assert!(!served[1].join("t/d/6").exists());
}

#[test]
fn standard_input_is_put_and_hosts_are_asked_what_they_have() {
    let place = Place::new();
    let (served, other) = (place.dir("served"), place.dir("other"));
    let server = place.serve(&served, &["--allow-put"]);
    let second = place.serve(&other, &["--allow-put"]);
    let bytes = random_bytes(300_000, 7);
    let put = |to: &str, more: &[&str]| {
        let mut child = program()
            .args(["put", "-", to])
            .args(more)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        // A command that refuses reads no more.
        let _ = child.stdin.take().expect("piped").write_all(&bytes);
        child.wait_with_output().expect("ends")
    };
    let to = format!("{}/x", server.address);
    let refused = put(&to, &["--max-input", "100k"]);
    assert!(!refused.status.success() && shown(&refused.stderr).contains("--max-input"));
    let done = put(&to, &[]);
    assert!(done.status.success(), "{}", shown(&done.stderr));
    assert!(std::fs::read(served.join("x")).expect("read") == bytes);

    let stat = output(&["stat", &to]);
    let digest = blake3::hash(&bytes).to_hex();
    assert!(
        shown(&stat.stdout).contains(&format!("300000 bytes, {digest}")),
        "{}",
        shown(&stat.stdout)
    );
    write(&other, "x", b"other bytes");
    let both = output(&["stat", &format!("{},{}/x", server.address, second.address)]);
    assert_eq!((both.status.code(), shown(&both.stdout).lines().count()), (Some(5), 2));
    let tree = shown(&output(&["stat", &format!("{}/", server.address), "--json"]).stdout);
    assert!(tree.contains("\"files\":1") && tree.contains("\"bytes\":300000"), "{tree}");
    let none = output(&["stat", &format!("{}/none", server.address)]);
    assert_eq!(none.status.code(), Some(4), "{}", shown(&none.stderr));
}

#[test]
fn a_directory_is_swapped_at_once() {
    let place = Place::new();
    let (served, here) = (place.dir("served"), place.path("here"));
    write(&served, "d/a", b"first");
    write(&served, "b", b"same");
    let server = place.serve(&served, &[]);
    let root = format!("{}/", server.address);
    let get = ["get", &root, "-o", text(&here), "--atomic", "--delete"];
    assert_eq!(run(&get).success().summary["swapped"], "new");
    write(&here, "mine", b"mine");
    write(&served, "d/a", b"second");
    let further = place.serve(&here, &[]);
    // A process that has the old one open sees the old one.
    let old = std::fs::File::open(&here).expect("open");
    let swapped = run(&get).success().summary;
    assert_ne!(swapped["swapped"], "new");
    assert_eq!(swapped["files_fetched"], 1);
    assert_eq!(std::fs::read(here.join("d/a")).expect("read"), b"second");
    assert_eq!(listing(&here), ["b", "d"]);
    let new = std::fs::File::open(&here).expect("open");
    let inode = |file: &std::fs::File| {
        use std::os::unix::fs::MetadataExt;
        file.metadata().expect("stat").ino()
    };
    assert_ne!(inode(&old), inode(&new), "another directory has the name");
    let ls = output(&["ls", &format!("{}/", further.address)]);
    assert_eq!(shown(&ls.stdout), "b\nd/\n", "who serves it serves the new one");
    // What a get that was killed has left knows nothing of what came into the directory since.
    let left = place.dir(".here.wellspring-next");
    write(&left, "gone", b"by now");
    write(&here, "mine", b"mine");
    write(&here, "d/a", b"also mine, and to be replaced");
    let keeps = ["get", &root, "-o", text(&here), "--atomic", "--exclude", "b"];
    run(&keeps).success();
    assert_eq!(listing(&here), ["b", "d", "mine"]);
    assert_eq!(std::fs::read(here.join("d/a")).expect("read"), b"second");
    // Nobody goes on with it.
    place.dir(".here.wellspring-next");
    let cleaned = output(&["clean", text(here.parent().expect("a parent"))]);
    let said = shown(&cleaned.stdout);
    assert!(said.starts_with("0 part files and 1 unfinished tree removed"), "{said}");
    assert!(!place.path(".here.wellspring-next").exists() && here.join("mine").exists());
    let wrong = output(&["get", &format!("{root}b"), "-o", text(&place.path("x")), "--atomic"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", shown(&wrong.stderr));
}

#[test]
fn attributes_are_kept_if_asked_for_and_where_they_are_allowed() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    let place = Place::new();
    let (here, here_again) = (place.dir("here"), place.path("here-again"));
    write(&here, "d/a", b"bytes");
    let set = |path: &Path, value: &str| {
        setxattr(path, "user.kind", value.as_bytes(), XattrFlags::empty()).expect("set");
    };
    let kind = |path: &Path| {
        let mut value = [0; 64];
        let len = getxattr(path, "user.kind", &mut value).ok()?;
        Some(shown(&value[..len]))
    };
    set(&here.join("d/a"), "file");
    set(&here.join("d"), "directory");
    let taken = place.dir("taken");
    let strict = place.serve(&place.dir("strict"), &["--allow-put"]);
    let put = |server: &str| run(&["put", text(&here), &format!("{server}/t/"), "--xattrs"]);
    let refused = put(&strict.address.to_string());
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.text.contains("--allow-attributes"), "{}", refused.text);
    let server = place.serve(&taken, &["--allow-put", "--allow-overwrite", "--allow-attributes"]);
    let address = server.address.to_string();
    put(&address).success();
    assert_eq!(kind(&taken.join("t/d/a")).as_deref(), Some("file"));
    assert_eq!(kind(&taken.join("t/d")).as_deref(), Some("directory"));
    let tree = format!("{address}/t/");
    let get = |with: &[&str]| {
        run(&[&["get", &tree, "-o", text(&here_again)][..], with].concat()).success().summary
    };
    get(&[]);
    assert_eq!(kind(&here_again.join("d/a")), None, "not without the option");
    let again = get(&["--xattrs", "--acls"]);
    assert_eq!(again["files_fetched"], 0, "no bytes are moved for them");
    assert_eq!(kind(&here_again.join("d/a")).as_deref(), Some("file"));
    assert_eq!(kind(&here_again.join("d")).as_deref(), Some("directory"));
    set(&here_again.join("d/a"), "other");
    get(&["--xattrs"]);
    assert_eq!(kind(&here_again.join("d/a")).as_deref(), Some("file"));
}

/// An access control list as Linux has it in an attribute (acl(5), version 2): what the owner, that user, the group, all
/// but the owner at most, and others may do.
fn access_list(user: u32, may: u16) -> Vec<u8> {
    let entries =
        [(1, 6, u32::MAX), (2, may, user), (4, 4, u32::MAX), (16, 7, u32::MAX), (32, 0, u32::MAX)];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, may, of) in entries {
        bytes.extend_from_slice(&u16::to_le_bytes(tag));
        bytes.extend_from_slice(&u16::to_le_bytes(may));
        bytes.extend_from_slice(&u32::to_le_bytes(of));
    }
    bytes
}

#[test]
fn access_control_lists_are_kept_there_and_back() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    const ACCESS: &str = "system.posix_acl_access";
    const DEFAULT: &str = "system.posix_acl_default";
    let place = Place::new();
    let (here, back, taken) = (place.dir("here"), place.path("back"), place.dir("taken"));
    write(&here, "d/a", b"bytes");
    write(&here, "d/plain", b"bytes");
    let (of_file, of_new) = (access_list(12_345, 5), access_list(54_321, 7));
    let set = |path: &str, name: &str, list: &[u8]| {
        setxattr(here.join(path), name, list, XattrFlags::empty())
    };
    if let Err(error) = set("d/a", ACCESS, &of_file) {
        assert_eq!(error, rustix::io::Errno::OPNOTSUPP, "{error}");
        assert!(std::env::var_os("CI").is_none(), "not run: {} has no such lists", here.display());
        println!("NOT TESTED: {} has no access control lists", here.display());
        return;
    }
    set("d", DEFAULT, &of_new).expect("a list");
    let server = place.serve(&taken, &["--allow-put", "--allow-overwrite", "--allow-attributes"]);
    let there = format!("{}/t/", server.address);
    run(&["put", text(&here), &there, "--acls"]).success();
    run(&["get", &there, "-o", text(&back), "--acls"]).success();
    let list = |path: std::path::PathBuf, name: &str| {
        let mut list = [0; 256];
        getxattr(path, name, &mut list).ok().map(|len| list[..len].to_vec())
    };
    for copy in [taken.join("t"), back.clone()] {
        assert_eq!(list(copy.join("d/a"), ACCESS), Some(of_file.clone()), "{}", copy.display());
        assert_eq!(list(copy.join("d"), DEFAULT), Some(of_new.clone()), "{}", copy.display());
        // A new file below inherits nothing that the original does not have.
        assert_eq!(list(copy.join("d/plain"), ACCESS), None, "{}", copy.display());
    }
    // A list alone that changes is set, and no bytes move.
    let changed = access_list(12_345, 4);
    set("d/a", ACCESS, &changed).expect("a list");
    let sent = run(&["put", text(&here), &there, "--acls", "--force"]).success().summary;
    assert_eq!(sent["bytes_sent"], 0, "{sent}");
    let got = run(&["get", &there, "-o", text(&back), "--acls"]).success().summary;
    assert_eq!(got["files_fetched"], 0, "{got}");
    assert_eq!(list(back.join("d/a"), ACCESS), Some(changed));
}

#[test]
fn a_put_swaps_the_directory_of_a_host_at_once_and_goes_on_after_a_kill() {
    let place = Place::new();
    let (here, served) = (place.dir("here"), place.dir("served"));
    write(&here, "a", b"first");
    write(&here, "d/b", b"same");
    let flags = ["--allow-put", "--allow-overwrite"];
    let server = place.serve(&served, &flags);
    let to = format!("{}/t/", server.address);
    let put = ["put", text(&here), &to, "--atomic", "--force"];
    run(&put).success();
    assert_eq!(listing(&served), ["t"], "nothing is left beside it");
    write(&served, "t/others", b"kept");
    write(&here, "a", b"second");
    write(&here, "large", &random_bytes(20_000_000, 7));
    let slow = Transfer::start(&[&put[..], &["--inject-send-rate", "100M"]].concat());
    slow.wait_for_part(0.5);
    slow.kill();
    assert_eq!(std::fs::read(served.join("t/a")).expect("read"), b"first");
    assert_eq!(listing(&served.join("t")), ["a", "d", "others"], "the old tree is as it was");
    // What others change meanwhile is not lost, and what the first put alone had does not come.
    write(&served, "t/late", b"kept, too");
    std::fs::remove_file(served.join("t/others")).expect("removed");
    let old = std::fs::File::open(served.join("t")).expect("open");
    let ended = run(&put).success().summary;
    assert!(ended["files_sent"].as_u64() <= Some(2), "{ended}");
    assert_eq!(listing(&served), ["t"]);
    assert_eq!(listing(&served.join("t")), ["a", "d", "large", "late"]);
    assert_eq!(std::fs::read(served.join("t/a")).expect("read"), b"second");
    let new = std::fs::File::open(served.join("t")).expect("open");
    let inode = |file: &std::fs::File| {
        use std::os::unix::fs::MetadataExt;
        file.metadata().expect("stat").ino()
    };
    assert_ne!(inode(&old), inode(&new), "another directory has the name");
    let mirror = [&put[..], &["--delete"]].concat();
    run(&mirror).success();
    assert_eq!(listing(&served.join("t")), ["a", "d", "large"]);
    let dry = output(&[&mirror[..], &["--dry-run"]].concat());
    assert!(dry.status.success() && listing(&served) == ["t"], "{}", shown(&dry.stderr));
    let root = format!("{}/", server.address);
    let wrong = run(&["put", text(&here), &root, "--atomic"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
}
