//! Frames as Ethernet has them: padded ones and tagged ones, which veth interfaces make none of by themselves. Needs root,
//! iproute2 and Python.

use std::process::Command;

use crate::lab::{Lab, NO_LOSS, run, skip};

const GROUP: &str = "239.82.0.1";
const GROUP_MAC: &str = "01005e520001";
/// Frames of a kind.
const FRAMES: u64 = 20;
/// Sends UDP packets of 32 bytes, padded to the 46 that a frame has at least: first in frames of a VLAN, then in
/// frames without a tag, then in frames with a priority alone.
const SEND: &str = "
import socket, sys
interface, mac, source, to, count = sys.argv[1:]
frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
frames.bind((interface, 0))
ends = socket.inet_aton(source) + socket.inet_aton(to)
ip = bytes([0x45, 0, 0, 32, 0, 0, 0x40, 0, 8, 17, 0, 0]) + ends
udp = bytes([0x13, 0x88, 0x13, 0x88, 0, 12, 0, 0])
for tag in ['81000064', '', '8100e000']:
    for number in range(int(count)):
        head = bytes.fromhex(mac + '020000000001' + tag + '0800')
        frames.send(head + ip + udp + number.to_bytes(4, 'big') + bytes(14))
";

fn send(lab: &Lab, part: &str, interface: &str, mac: &str, source: &str, to: &str) {
    let args = ["-c", SEND, interface, mac, source, to, &FRAMES.to_string()];
    run(lab.inside(part, "python3").args(args));
}

#[test]
fn padding_is_left_out_and_packets_of_vlans_are_left_alone() {
    if Command::new("python3").arg("--version").output().is_err() {
        skip("this needs Python");
        return;
    }
    let Some(mut lab) = Lab::new(NO_LOSS) else { return };
    // On the long link, past the emulator. Nobody is the peer, so that nothing else comes.
    lab.start_appliance_with("aa", "aa", "10.82.0.7", &[]);
    lab.wait_until("an appliance", |lab| lab.status("aa")["name"] == "aa");
    let mac = lab.inside("aa", "cat").arg("/sys/class/net/wan/address").output().expect("cat");
    let mac = String::from_utf8_lossy(&mac.stdout).trim().replace(':', "");
    send(&lab, "li", "near", &mac, "10.82.2.2", "10.82.1.2");
    // Packets without a VLAN are the last, so that all have been seen.
    lab.wait_until("packets", |lab| lab.number("aa", "/received/packets") >= 2 * FRAMES);
    assert_eq!(lab.number("aa", "/received/packets"), 2 * FRAMES, "{:#}", lab.status("aa"));
    // In the local network.
    lab.kill("aa");
    lab.start_appliance_with("aa", "aa", "10.82.0.2", &["--multicast", GROUP]);
    lab.start_appliance_with("ab", "ab", "10.82.0.1", &["--multicast", GROUP]);
    lab.wait_for_peers();
    send(&lab, "ha", "lan", GROUP_MAC, "10.82.1.2", GROUP);
    lab.wait_until("a group's packets", |lab| {
        lab.number("ab", "/bundles/packets_received") >= 2 * FRAMES
    });
    // What a status says may be older than what the other end has heard.
    lab.wait_until("its sender's count", |lab| {
        lab.number("aa", "/bundles/packets_sent") >= 2 * FRAMES
    });
    assert_eq!(lab.number("aa", "/bundles/packets_sent"), 2 * FRAMES, "{:#}", lab.status("aa"));
    assert_eq!(lab.number("ab", "/bundles/refused"), 0, "{:#}", lab.status("ab"));
}
