//! Appliances on links as they are: without room for repairs, behind NAT, encrypted, far. Needs root, iproute2 and nft.

use crate::lab::{Lab, Losses, NO_LOSS, WELLSPRING, run, seen, skip};
use crate::maelstrom::{DATAGRAMS, HOST, STREAM_LEN};
use wellspring_appliance::link_emulator::Loss;

/// None where there is no root or no nft.
pub fn lab(chain: bool, loss: Losses) -> Option<Lab> {
    if std::process::Command::new("nft").arg("--version").output().is_err() {
        skip("this needs nft, of nftables");
        return None;
    }
    if chain { Lab::chain(loss) } else { Lab::new(loss) }
}

/// An appliance with a code that adapts.
pub fn start(lab: &mut Lab, part: &str, wan: &str, peer: &str, more: &[&str]) {
    let (key, folder) = (lab.path("key"), lab.path(""));
    let args = ["maelstrom", "up", "--lan", "lan", "--wan", wan, "--peer", peer, "--key", &key];
    let args = [&args[..], &["--name", part, "--run-dir", &folder], more].concat();
    lab.start(part, part, &args);
}

/// Datagrams of a kind from one host to the other; how many arrive.
fn datagrams(lab: &Lab, from: &str, to: &str, kind: &str) -> u64 {
    let receiver = lab.host(HOST, to, "receive-datagrams");
    let sender = lab.host(HOST, from, &format!("send-datagrams{kind}"));
    assert!(sender.wait_with_output().expect("sent").status.success());
    seen(&receiver.wait_with_output().expect("received"))
}

fn assert_all_arrive(lab: &Lab) {
    let arrived = datagrams(lab, "ha", "hb", "");
    // What is lost at the very end waits for repairs that no packet drives out.
    assert!(arrived >= DATAGRAMS - 15, "{arrived} of {DATAGRAMS}, {:#}", lab.status("ab"));
    assert!(lab.number("ab", "/received/recovered") > 0, "{:#}", lab.status("ab"));
}

pub fn stream(lab: &Lab) {
    let receiver = lab.host(HOST, "hb", "receive-stream");
    let sender = lab.host(HOST, "ha", "send-stream");
    assert!(sender.wait_with_output().expect("sent").status.success());
    assert_eq!(seen(&receiver.wait_with_output().expect("received")), STREAM_LEN as u64);
}

fn rules(lab: &Lab, part: &str) -> String {
    let rules = lab.inside(part, "nft").args(["list", "ruleset"]).output().expect("nft");
    String::from_utf8_lossy(&rules.stdout).into_owned()
}

/// Sets rules in a part's namespace.
fn nft(lab: &Lab, part: &str, script: &str) {
    let path = lab.path("rules");
    std::fs::write(&path, script).expect("written");
    run(lab.inside(part, "nft").args(["-f", &path]));
}

#[test]
fn a_link_without_room_for_repairs_gets_shorter_segments_while_it_is_protected() {
    let Some(mut lab) = lab(false, Losses { seed: 11, ..Losses::random(0.01) }) else { return };
    for part in ["aa", "ab"] {
        lab.ip(part, &["link", "set", "dev", "wan", "mtu", "1500"]);
    }
    let start_both = |lab: &mut Lab| {
        start(lab, "aa", "wan", "10.82.0.2", &["--remote", "10.82.2.0/24"]);
        start(lab, "ab", "wan", "10.82.0.1", &[]);
        lab.wait_for_peers();
    };
    start_both(&mut lab);
    for part in ["aa", "ab"] {
        assert_eq!(lab.status(part)["clamped"], true, "{:#}", lab.status(part));
        assert!(rules(&lab, part).contains("maxseg"), "{}", rules(&lab, part));
    }
    stream(&lab);
    assert!(lab.number("ab", "/received/recovered") > 0, "{:#}", lab.status("ab"));
    assert_eq!(lab.number("aa", "/sent/too_long"), 0, "{:#}", lab.status("aa"));
    // A kill leaves the rules; the next life has its own, and takes them away.
    lab.kill("aa");
    assert!(rules(&lab, "aa").contains("maxseg"));
    lab.down("ab");
    start_both(&mut lab);
    assert_eq!(rules(&lab, "aa").matches("chain clamp").count(), 1, "{}", rules(&lab, "aa"));
    for part in ["aa", "ab"] {
        lab.down(part);
        assert_eq!(rules(&lab, part), "", "{part}");
    }
}

#[test]
fn appliances_of_one_router_have_rules_of_their_own() {
    let Some(mut lab) = lab(false, NO_LOSS) else { return };
    let set_mtu = |lab: &Lab, mtu| lab.ip("aa", &["link", "set", "dev", "wan", "mtu", mtu]);
    let begin = |lab: &mut Lab, name: &str, mode: &str| {
        let (peer, remote) = match name {
            "one" => ("10.82.0.2:4714", "10.82.2.0/25"),
            _ => ("10.82.0.2:4814", "10.82.2.128/25"),
        };
        lab.start_appliance_with(name, "aa", peer, &["--remote", remote, "--mode", mode]);
        lab.wait_until("an appliance", |lab| lab.status(name)["name"] == name);
    };
    // How many have a clamp, take connections, and lead these here.
    let all = |lab: &Lab| {
        let rule = lab.inside("aa", "ip").args(["-4", "rule"]).output().expect("ip");
        let rule = String::from_utf8_lossy(&rule.stdout).matches("fwmark").count();
        let rules = rules(lab, "aa");
        [rules.matches("chain clamp").count(), rules.matches("chain take").count(), rule]
    };
    set_mtu(&lab, "1500");
    begin(&mut lab, "one", "split");
    begin(&mut lab, "two", "split");
    assert_eq!(all(&lab), [2, 2, 2], "{}", rules(&lab, "aa"));
    lab.down("one");
    assert_eq!(all(&lab), [1, 1, 1], "{}", rules(&lab, "aa"));
    assert!(rules(&lab, "aa").contains("10.82.2.128/25"), "{}", rules(&lab, "aa"));
    // The next life of one that was killed takes away a clamp that it does not need.
    lab.kill("two");
    set_mtu(&lab, "1700");
    begin(&mut lab, "two", "split");
    assert_eq!(all(&lab), [0, 1, 1], "{}", rules(&lab, "aa"));
    lab.down("two");
    assert_eq!(all(&lab), [0, 0, 0], "{}", rules(&lab, "aa"));
}

#[test]
fn a_peer_behind_nat_is_found_where_its_datagrams_come_from() {
    let Some(mut lab) = lab(true, Losses { seed: 13, ..Losses::random(0.02) }) else { return };
    // The router before the long link hides the appliance behind it.
    let nat = "table inet nat {\n chain out {\n  type nat hook postrouting priority srcnat;\n  \
               oifname \"wan\" ip saddr 10.82.3.1 meta l4proto udp masquerade to :20000-20999\n }\n}\n";
    nft(&lab, "ac", nat);
    lab.ip("ab", &["route", "del", "10.82.3.0/24"]);
    start(&mut lab, "aa", "wan", "10.82.0.2", &[]);
    start(&mut lab, "ab", "wan", "any", &[]);
    lab.wait_for_peers();
    let peer = lab.status("ab")["peer"].as_str().unwrap_or_default().to_owned();
    assert!(peer.starts_with("10.82.0.1:20"), "{peer}");
    assert_eq!(lab.status("aa")["peer"], "10.82.0.2:4714");
    assert_all_arrive(&lab);
    let back = datagrams(&lab, "hb", "ha", "-back");
    assert!(back >= DATAGRAMS - 15, "{back} of {DATAGRAMS}, {:#}", lab.status("aa"));
    assert!(lab.number("aa", "/received/recovered") > 0, "{:#}", lab.status("aa"));
    // Its address changes, as that of a telephone does.
    let keep = "echo 1 >/proc/sys/net/ipv4/conf/wan/promote_secondaries";
    run(lab.inside("ac", "sh").args(["-c", keep]));
    lab.ip("ac", &["addr", "add", "10.82.0.7/24", "dev", "wan"]);
    lab.ip("ac", &["addr", "del", "10.82.0.1/24", "dev", "wan"]);
    lab.ip("ac", &["route", "replace", "10.82.2.0/24", "via", "10.82.0.2"]);
    lab.ip("ab", &["route", "replace", "10.82.1.0/24", "via", "10.82.0.7"]);
    lab.wait_until("the new address", |lab| {
        let peer = lab.status("ab")["peer"].as_str().unwrap_or_default().to_owned();
        peer.starts_with("10.82.0.7:20")
    });
    assert_all_arrive(&lab);
    // Repairs to that address are not taken for packets.
    let status = lab.status("ab");
    assert!(lab.number("ab", "/sent/packets") < DATAGRAMS + 200, "{status:#}");
}

#[test]
fn an_encrypted_pair_protects_and_its_counterpart_is_told_of_the_key() {
    let Some(mut lab) = lab(false, Losses { seed: 14, ..Losses::random(0.02) }) else { return };
    start(&mut lab, "aa", "wan", "10.82.0.2", &["--encrypt"]);
    start(&mut lab, "ab", "wan", "10.82.0.1", &[]);
    for part in ["aa", "ab"] {
        lab.wait_until("the cause", |lab| lab.status(part)["trouble"][0]["cause"] == "wrong_key");
    }
    lab.down("ab");
    start(&mut lab, "ab", "wan", "10.82.0.1", &["--encrypt"]);
    lab.wait_for_peers();
    assert_eq!(lab.status("ab")["encrypted"], true);
    assert_all_arrive(&lab);
}

#[test]
fn repairs_have_the_class_of_the_packets() {
    let Some(mut lab) = lab(false, Losses { seed: 15, ..Losses::random(0.02) }) else { return };
    nft(
        &lab,
        "ab",
        "table inet count {\n chain in {\n  type filter hook prerouting priority filter;\n  \
         iifname \"wan\" udp dport 4714 ip dscp ef ip ecn ect0 counter\n  \
         iifname \"wan\" udp dport 5000 ip dscp ef counter\n }\n}\n",
    );
    start(&mut lab, "aa", "wan", "10.82.0.2", &[]);
    start(&mut lab, "ab", "wan", "10.82.0.1", &[]);
    lab.wait_for_peers();
    let arrived = datagrams(&lab, "ha", "hb", "-expedited");
    assert!(arrived >= DATAGRAMS - 15, "{arrived} of {DATAGRAMS}");
    let rules = rules(&lab, "ab");
    let packets = |port: &str| -> u64 {
        let line = rules.lines().find(|line| line.contains(port)).expect("a counter");
        let after = line.split("packets ").nth(1).and_then(|rest| rest.split(' ').next());
        after.and_then(|number| number.parse().ok()).expect("a number")
    };
    let repairs = lab.number("ab", "/received/repairs");
    assert!(packets("5000") > DATAGRAMS * 9 / 10, "{rules}");
    // All but those of the pair's first words, before there were packets.
    assert!(packets("4714") >= repairs * 9 / 10 && repairs > 100, "{repairs} repairs, {rules}");
}

#[test]
fn a_satellite_is_far_and_protected() {
    let Some(mut lab) = lab(false, NO_LOSS) else { return };
    lab.start_link(300, Losses { there: Loss::Random(0.02), seed: 16, ..NO_LOSS });
    for part in ["aa", "ab"] {
        let peer = if part == "aa" { "10.82.0.2" } else { "10.82.0.1" };
        start(&mut lab, part, "wan", peer, &["--path-mtu", "1500"]);
    }
    lab.wait_for_peers();
    assert_eq!(lab.status("aa")["clamped"], true, "{:#}", lab.status("aa"));
    assert_all_arrive(&lab);
}

/// TCP segments whose checksums a host's kernel found wrong.
fn wrong_checksums(lab: &Lab, part: &str) -> u64 {
    let text = lab.inside(part, "cat").arg("/proc/net/snmp").output().expect("cat").stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut rows = text.lines().filter(|line| line.starts_with("Tcp:")).map(str::split_whitespace);
    let (mut names, mut numbers) = (rows.next().expect("names"), rows.next().expect("numbers"));
    let at = names.position(|name| name == "InCsumErrors").expect("counted");
    numbers.nth(at).and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn what_comes_back_after_a_retransmission_has_its_time_stamp_and_a_right_checksum() {
    let bursts = Loss::Bursts { part: 0.04, length: 12 };
    for (kept, more) in [(false, &[][..]), (true, &["--keep-time-stamps"][..])] {
        let Some(mut lab) = lab(false, NO_LOSS) else { return };
        lab.start_link(40, Losses { there: bursts, seed: 18, ..NO_LOSS });
        start(&mut lab, "aa", "wan", "10.82.0.2", more);
        start(&mut lab, "ab", "wan", "10.82.0.1", more);
        lab.wait_for_peers();
        stream(&lab);
        let status = lab.status("ab");
        let number = |path: &str| status.pointer(path).and_then(serde_json::Value::as_u64);
        assert!(number("/received/recovered") > Some(100), "{status:#}");
        assert_eq!(number("/received/renewed") == Some(0), kept, "{status:#}");
        assert_eq!(wrong_checksums(&lab, "hb"), 0, "checksums are those of the new time stamps");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let Some(lab) = lab(false, NO_LOSS) else { return };
    let up = |more: &[&str]| {
        let (key, folder) = (lab.path("key"), lab.path(""));
        let mut command = lab.inside("aa", WELLSPRING);
        command.args(["maelstrom", "up", "--lan", "lan", "--wan", "wan", "--key", &key]);
        let output = command.args(["--run-dir", &folder]).args(more).output().expect("run");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let says = |text: &str, what: &str| assert!(text.contains(what), "{text}");
    let split = ["--peer", "any", "--mode", "split", "--remote", "10.82.2.0/24"];
    says(&up(&split), "need the peer's address");
    says(&up(&["--peer", "anyone"]), "or `any`");
}
