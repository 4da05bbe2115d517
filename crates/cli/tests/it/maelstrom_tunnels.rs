//! Appliances whose long link is a tunnel or a VLAN. Needs root, iproute2 and nft; `lab/guest` runs all kinds, on a kernel that has them.

use std::process::Command;

use crate::lab::{Lab, Losses, NO_LOSS, run, skip};
use crate::maelstrom_links::{lab, start, stream};
use wellspring_appliance::link_emulator::Loss;

/// Set where the kernel has every kind of interface, so that one it lacks is a failure.
const ALL_KINDS: &str = "WELLSPRING_ALL_TUNNELS";

/// One end of a tunnel: its appliance, addresses on the long link and in the tunnel, its and the peer's, and the network
/// behind the peer.
struct End {
    part: &'static str,
    own: &'static str,
    peer: &'static str,
    own_inside: &'static str,
    peer_inside: &'static str,
    net: &'static str,
}

const ENDS: [End; 2] = [
    End {
        part: "aa",
        own: "10.82.0.1",
        peer: "10.82.0.2",
        own_inside: "10.82.9.1",
        peer_inside: "10.82.9.2",
        net: "10.82.2.0/24",
    },
    End {
        part: "ab",
        own: "10.82.0.2",
        peer: "10.82.0.1",
        own_inside: "10.82.9.2",
        peer_inside: "10.82.9.1",
        net: "10.82.1.0/24",
    },
];

fn lossy() -> Option<Lab> {
    lab(false, Losses { there: Loss::Bursts { part: 0.02, length: 5 }, seed: 12, ..NO_LOSS })
}

/// Whether the kernel has interfaces of a kind: whether it makes `probe0` by what follows `ip link add`.
fn has(lab: &Lab, link: &str) -> bool {
    let add = format!("ip link add {link} && ip link del probe0");
    let has = lab.inside("hb", "sh").args(["-c", &add]).output().expect("sh").status.success();
    if !has {
        assert!(std::env::var_os(ALL_KINDS).is_none(), "this kernel has no {link}");
        eprintln!("not run here, where the kernel has no {link}: `lab/guest` runs it");
    }
    has
}

/// Makes both ends' interfaces by what follows `ip link add`, with `OWN` and `PEER` for their addresses on the long link.
fn join(lab: &Lab, name: &str, mtu: &str, link: &str) {
    for end in &ENDS {
        let link = link.replace("OWN", end.own).replace("PEER", end.peer);
        let link: Vec<&str> = ["link", "add"].into_iter().chain(link.split(' ')).collect();
        lab.ip(end.part, &link);
        let inside = format!("{}/24", end.own_inside);
        lab.ip(end.part, &["addr", "add", &inside, "dev", name]);
        lab.ip(end.part, &["link", "set", "dev", name, "mtu", mtu, "up"]);
        lab.ip(end.part, &["route", "replace", end.net, "via", end.peer_inside]);
    }
}

/// Protects what enters a tunnel, and sends a stream through it.
fn assert_protected(lab: &mut Lab, name: &str, longest: u64) {
    for end in &ENDS {
        start(lab, end.part, name, end.peer_inside, &[]);
    }
    lab.wait_for_peers();
    assert_eq!(lab.number("aa", "/longest_protected"), longest, "{:#}", lab.status("aa"));
    stream(lab);
    let status = lab.status("ab");
    assert!(lab.number("ab", "/received/recovered") > 0, "{status:#}");
    for part in ["aa", "ab"] {
        assert_eq!(lab.number(part, "/sent/too_long"), 0, "{:#}", lab.status(part));
        assert_eq!(lab.number(part, "/unlike"), 0, "{:#}", lab.status(part));
        assert_eq!(lab.status(part)["trouble"], serde_json::json!([]));
    }
}

#[test]
fn vxlan_is_a_long_link_like_any_other() {
    let Some(mut lab) = lossy() else { return };
    join(&lab, "tun0", "1420", "tun0 type vxlan id 7 dstport 4789 dev wan local OWN remote PEER");
    assert_protected(&mut lab, "tun0", 1_260);
}

#[test]
fn gre_is_a_long_link_like_any_other() {
    let Some(mut lab) = lossy() else { return };
    if has(&lab, "probe0 type gre local 10.0.0.1 remote 10.0.0.2") {
        join(&lab, "tun0", "1476", "tun0 type gre local OWN remote PEER");
        assert_protected(&mut lab, "tun0", 1_316);
    }
}

#[test]
fn ipip_is_a_long_link_like_any_other() {
    let Some(mut lab) = lossy() else { return };
    if has(&lab, "probe0 type ipip local 10.0.0.1 remote 10.0.0.2") {
        join(&lab, "tun0", "1480", "tun0 type ipip local OWN remote PEER");
        assert_protected(&mut lab, "tun0", 1_320);
    }
}

#[test]
fn a_vlan_is_a_long_link_like_any_other() {
    let Some(mut lab) = lossy() else { return };
    if has(&lab, "link lan name probe0 type vlan id 100") {
        join(&lab, "wan.100", "1660", "link wan name wan.100 type vlan id 100");
        assert_protected(&mut lab, "wan.100", 1_500);
    }
}

/// WireGuard of the kernel, or where it has none, of `wireguard-go`.
#[test]
fn wireguard_is_a_long_link_like_any_other() {
    let Some(mut lab) = lossy() else { return };
    if Command::new("wireguard-go").arg("--version").output().is_err() {
        skip("this needs wireguard-go and wg, of wireguard-tools");
        return;
    }
    let keys = "umask 77; for end in aa ab; do wg genkey >$0/wg-$end; wg pubkey <$0/wg-$end >$0/of-$end; done";
    run(Command::new("sh").args(["-c", keys, &lab.path("")]));
    for (end, other) in [(&ENDS[0], &ENDS[1]), (&ENDS[1], &ENDS[0])] {
        // Its socket has the interface's name, and is the machine's unless the folder is a mount of its own.
        let script = "set -e; mkdir -p /run/wireguard; mount -t tmpfs wg /run/wireguard; \
             (until wg set wg0 private-key $0/wg-$1 listen-port 51820 \
                  peer $(cat $0/of-$2) allowed-ips 0.0.0.0/0 endpoint $3:51820; do sleep 0.1; done; \
              ip addr add $4/24 dev wg0; ip link set wg0 mtu 1420 up; ip route replace $5 dev wg0) & \
             if ip link add wg0 type wireguard; then wait; else exec wireguard-go -f wg0; fi";
        let folder = lab.path("");
        let of_end = [&folder, end.part, other.part, end.peer, end.own_inside, end.net];
        let args = [&["-c", script][..], &of_end].concat();
        lab.start_program(&format!("wireguard-{}", end.part), end.part, "sh", &args);
        lab.wait_until("a route through WireGuard", |lab| {
            let routes = lab.inside(end.part, "ip").args(["route", "show", end.net]).output();
            String::from_utf8_lossy(&routes.expect("ip").stdout).contains("wg0")
        });
    }
    assert_protected(&mut lab, "wg0", 1_260);
}
