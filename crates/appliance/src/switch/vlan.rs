//! VLAN membership of ports (IEEE 802.1Q).

use std::collections::BTreeSet;

/// Tag control information: priority in three bits, drop eligibility, and the VLAN in twelve.
pub(super) type Tag = u16;

/// Protocol identifier of a tag.
pub(super) const C_TAG: u16 = 0x8100;
/// The bits of a tag that name the VLAN.
const VLAN_BITS: u16 = 0xfff;

/// VLANs that can be configured: 0 means no VLAN, and 4095 is reserved (IEEE 802.1Q, table 9-2).
pub const VLAN_RANGE: std::ops::RangeInclusive<u16> = 1..=4094;

/// VLAN of access ports unless another is configured (IEEE 802.1Q, table 9-2).
pub const DEFAULT_VLAN: u16 = 1;

/// VLANs of a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PortVlans {
    /// Frames have no tag and belong to this VLAN. Tagged frames are not admitted, except those that carry only a
    /// priority.
    Access(u16),
    /// Frames carry a tag.
    Trunk {
        /// VLANs whose frames are admitted, and leave, with a tag.
        tagged: BTreeSet<u16>,
        /// The VLAN of frames without a tag; without one they are not admitted.
        native: Option<u16>,
    },
}

impl PortVlans {
    /// The VLANs of the port.
    pub fn all(&self) -> impl Iterator<Item = u16> {
        let (one, many) = match self {
            PortVlans::Access(vlan) => (Some(*vlan), None),
            PortVlans::Trunk { tagged, native } => (*native, Some(tagged)),
        };
        one.into_iter().chain(many.into_iter().flatten().copied())
    }
}

/// VLANs of all ports. Without any, the switch does not look at tags: frames leave with the tag that they came with.
#[derive(Clone, Debug)]
pub(super) struct Vlans(Option<Vec<PortVlans>>);

impl Vlans {
    pub(super) fn new(ports: Option<Vec<PortVlans>>) -> Self {
        Vlans(ports)
    }

    /// The VLAN of a frame that arrives at a port with that tag; none if it is not admitted.
    pub(super) fn admit(&self, port: usize, tag: Option<Tag>) -> Option<u16> {
        let Some(ports) = &self.0 else { return Some(0) };
        let named = tag.map_or(0, |tag| tag & VLAN_BITS);
        match (ports.get(port)?, named) {
            (PortVlans::Access(vlan), 0) => Some(*vlan),
            (PortVlans::Access(_), _) => None,
            (PortVlans::Trunk { native, .. }, 0) => *native,
            (PortVlans::Trunk { tagged, native }, vlan) => {
                (tagged.contains(&vlan) || *native == Some(vlan)).then_some(vlan)
            }
        }
    }

    /// The tag with which a frame of a VLAN leaves by a port, if the port is in the VLAN. `tag` is what it came with.
    pub(super) fn leave(&self, port: usize, vlan: u16, tag: Option<Tag>) -> Option<Option<Tag>> {
        let Some(ports) = &self.0 else { return Some(tag) };
        match ports.get(port)? {
            PortVlans::Access(own) => (*own == vlan).then_some(None),
            PortVlans::Trunk { native, .. } if *native == Some(vlan) => Some(None),
            PortVlans::Trunk { tagged, .. } => {
                let priority = tag.map_or(0, |tag| tag & !VLAN_BITS);
                tagged.contains(&vlan).then_some(Some(priority | vlan))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vlans() -> Vlans {
        let trunk = |tagged: &[u16], native| PortVlans::Trunk {
            tagged: tagged.iter().copied().collect(),
            native,
        };
        Vlans::new(Some(vec![
            PortVlans::Access(10),
            trunk(&[10, 20], Some(1)),
            trunk(&[20], None),
            PortVlans::Access(1),
        ]))
    }

    #[test]
    fn frames_are_admitted_into_the_vlans_of_their_port_only() {
        let vlans = vlans();
        let admit = |port, tag| vlans.admit(port, tag);
        assert_eq!(admit(0, None), Some(10));
        assert_eq!(admit(0, Some(5 << 13)), Some(10), "a priority alone");
        assert_eq!(admit(0, Some(10)), None, "tagged at an access port");
        assert_eq!(admit(1, None), Some(1));
        assert_eq!((admit(1, Some(10)), admit(1, Some(1))), (Some(10), Some(1)));
        assert_eq!((admit(1, Some(30)), admit(1, Some(4095))), (None, None));
        assert_eq!((admit(2, None), admit(2, Some(7 << 13 | 20))), (None, Some(20)));
        assert_eq!(admit(9, None), None, "no such port");
    }

    #[test]
    fn frames_leave_with_the_tag_of_the_port_and_keep_their_priority() {
        let vlans = vlans();
        assert_eq!(vlans.leave(1, 10, None), Some(Some(10)));
        assert_eq!(vlans.leave(1, 10, Some(5 << 13)), Some(Some(5 << 13 | 10)));
        assert_eq!(vlans.leave(1, 1, Some(5 << 13 | 1)), Some(None), "the native VLAN");
        assert_eq!(vlans.leave(0, 10, Some(5 << 13 | 10)), Some(None));
        assert_eq!((vlans.leave(0, 20, None), vlans.leave(2, 10, None)), (None, None));
    }

    #[test]
    fn without_vlans_tags_are_left_as_they_are() {
        let vlans = Vlans::new(None);
        for tag in [None, Some(0), Some(7 << 13 | 99)] {
            assert_eq!(vlans.admit(0, tag), Some(0));
            assert_eq!(vlans.leave(1, 0, tag), Some(tag));
        }
    }

    #[test]
    fn no_frame_changes_its_vlan() {
        let vlans = vlans();
        for (from, tag) in (0..4).flat_map(|from| (0..64).map(move |tag| (from, tag))) {
            let Some(vlan) = vlans.admit(from, Some(tag)) else { continue };
            for to in 0..4 {
                if let Some(left) = vlans.leave(to, vlan, Some(tag)) {
                    assert_eq!(vlans.admit(to, left), Some(vlan), "{tag} from {from} to {to}");
                }
            }
        }
    }
}
