//! Any history of frames through a switch that listens to IGMP and MLD: no frame makes it panic or takes more memberships than
//! its port has, groups of the link go everywhere, and all others at least to routers.

use std::time::{Duration, Instant};

use wellspring_appliance::switch::PortSet;
use wellspring_appliance::switch::snooping::{
    Content, Destination, MOST_MEMBERSHIPS, Snooping, SnoopingConfig, is_link_wide, read,
};

const PORTS: usize = 4;
const ROUTER: usize = 3;

/// What is before the frame of a step: port and VLAN, seconds, kind, and length.
const STEP: usize = 4;

fn sum(bytes: &[u8]) -> u32 {
    let word = |word: &[u8]| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
    bytes.chunks(2).map(word).sum()
}

fn mend(bytes: &mut [u8], at: usize, before: u32) {
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.fill(0);
        let mut sum = sum(bytes) + before;
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        bytes[at..at + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
}

/// A frame of a kind: as it is, or a message of IGMP or MLD from a host or from nobody, whose checksums are made right.
fn frame(kind: u8, message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    match kind % 5 {
        0 => message,
        kind @ (1 | 2) => {
            mend(&mut message, 2, 0);
            let len = (20 + message.len() as u16).to_be_bytes();
            let mut header = vec![0x45, 0, len[0], len[1], 0, 0, 0, 0, 1, 2, 0, 0];
            header.extend(if kind == 1 { [10, 0, 0, 1] } else { [0; 4] });
            header.extend([224, 0, 0, 22]);
            mend(&mut header, 10, 0);
            [&[1, 0, 0x5e, 0, 0, 22, 2, 0, 0, 0, 0, 1, 8, 0][..], &header, &message].concat()
        }
        kind => {
            let mut source = [0; 16];
            if kind == 3 {
                source[..2].copy_from_slice(&[0xfe, 0x80]);
            }
            let to = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 22];
            let before = sum(&source) + sum(&to) + message.len() as u32 + 58;
            mend(&mut message, 2, before);
            let len = (8 + message.len() as u16).to_be_bytes();
            let header = [0x60, 0, 0, 0, len[0], len[1], 0, 1];
            let ethernet = [0x33, 0x33, 0, 0, 0, 22, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
            let options = [58, 0, 5, 2, 0, 0, 1, 0];
            [&ethernet[..], &header, &source, &to, &options, &message].concat()
        }
    }
}

/// The first byte says where unknown groups go; then come steps.
pub fn run(input: &[u8]) {
    let Some((first, mut rest)) = input.split_first() else { return };
    let config = SnoopingConfig { restrict_unknown: first % 2 == 1, routers: PortSet::one(ROUTER) };
    let mut snooping = Snooping::new(config, PORTS);
    let mut now = Instant::now();
    while let Some((&[at, seconds, kind, len], after)) = rest.split_first_chunk::<STEP>() {
        let (message, after) = after.split_at(usize::from(len).min(after.len()));
        rest = after;
        now += Duration::from_secs(seconds.into());
        let (port, vlan) = (usize::from(at) % PORTS, u16::from(at) / PORTS as u16 % 4);
        let frame = frame(kind, message);
        let to = snooping.pass(vlan, port, &frame, now);
        if let Destination::Ports(ports) = to {
            assert!(ports.contains(ROUTER), "{ports:?}");
            assert!(ports.iter().all(|port| port < PORTS), "{ports:?}");
        }
        if let Content::Data(group) = read(&frame) {
            assert!(!is_link_wide(group) || to == Destination::All, "{group}");
        }
        let (groups, memberships) = snooping.sizes();
        assert!(groups <= memberships && memberships <= PORTS * MOST_MEMBERSHIPS);
    }
}
