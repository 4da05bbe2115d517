use wellspring_wire::control::{Geometry, Name};
use wellspring_wire::scdp::Mode;

use super::bounds::{GROUP_SILENCE, YOUNG};
use super::*;
use crate::store::{Existing, Root};

#[test]
fn a_session_is_over_when_its_client_is_silent_for_long_or_its_port_is_closed() {
    let (mut signs, start) = (SignsOfLife::default(), Instant::now());
    let just_before = start + TAKE_OVER - Duration::from_millis(1);
    assert_eq!(signs.judge(7, start), Life::InDoubt);
    assert_eq!(signs.judge(7, just_before), Life::InDoubt);
    assert_eq!(signs.judge(7, start + TAKE_OVER), Life::Over);
    assert_eq!(signs.judge(8, just_before), Life::Shown);
    assert_eq!(signs.judge(8, just_before), Life::InDoubt, "compared anew");
    signs.closed = Some(8);
    assert_eq!(signs.judge(8, just_before), Life::Over, "nobody listens there");
    assert_eq!(signs.judge(9, just_before), Life::Shown, "the report was forged");
    assert_eq!(signs.judge(9, just_before), Life::InDoubt);
}

struct Table {
    puts: Puts,
    quotas: Arc<Quotas>,
    config: ServerConfig,
    home: tempfile::TempDir,
}

const SIZE: u64 = 1 << 20;

impl Table {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("temporary directory");
        let quotas = Quotas::new(Arc::new(Root::open(home.path()).expect("a directory")));
        let config = ServerConfig::new(at(1), home.path().to_owned());
        Table { puts: Puts::new(Places::new("puts", 99, 99)), quotas, config, home }
    }

    /// A client of that host puts an object, perhaps through a group.
    fn receive(&mut self, session: u32, host: u8, group: Option<&str>) -> SessionId {
        let session = SessionId(session);
        let offer = Offer {
            session,
            name: Name::new("x").expect("a name"),
            size: SIZE,
            digest: [1; 32],
            mode: if group.is_some() { Mode::OneToMany } else { Mode::Unicast },
            group: group.map(|group| group.parse().expect("a group")),
            geometry: Geometry { symbol_size: 1_000, symbols_per_block: 9, initial_window: 1 },
            overwrite: false,
            resume: false,
            timeout_ms: 600_000,
            background: false,
        };
        let owner = Owner { client: at(host), key: None };
        let admitted = self.puts.admit(owner, &offer, &self.config, (&self.quotas, None));
        admitted.map_err(|refusal| refusal.text).expect("a place");
        let path = self.home.path().join(format!("{}", session.0));
        let part = PartFile::beside(&path, SIZE, Digest([1; 32]), Existing::Keep);
        let begun = (Arc::new(part.expect("made")), SessionProgress::new(SIZE));
        self.puts.get_mut(session).expect("admitted").begin(117, Vec::new(), begun);
        session
    }
}

fn at(host: u8) -> SocketAddr {
    ([192, 0, 2, host], 7).into()
}

#[test]
fn a_client_has_its_part_of_what_others_leave() {
    let mut table = Table::new();
    let [one, same, other] = [(1, 1), (2, 1), (3, 2)].map(|(s, h)| table.receive(s, h, None));
    let mut claim = |session, reserved| {
        let claimed = table.puts.claim(session, reserved, (3 * SIZE, 50));
        claimed.map_err(|refusal| refusal.code)
    };
    assert_eq!(claim(one, SIZE), Ok(()));
    assert_eq!(claim(same, SIZE / 2 + 1), Err(RefusalCode::NoSpace), "half of three");
    assert_eq!(claim(same, SIZE / 2), Ok(()), "to the last byte");
    assert_eq!(claim(other, SIZE), Err(RefusalCode::NoSpace), "half of what that one leaves");
    assert_eq!(claim(other, SIZE * 3 / 4), Ok(()));
    // The space at which it would do: 1.75 are held for the others, and a half of what they leave.
    assert_eq!(table.puts.space_for(other, SIZE, 50), SIZE * 7 / 2);
    assert!(table.puts.claim(other, SIZE, (SIZE * 7 / 2 - 2, 50)).is_err());
    assert!(table.puts.claim(other, SIZE, (SIZE * 7 / 2, 50)).is_ok());
    // What is over holds nothing.
    table.puts.end(one, Stage::Failed(RefusalCode::TooSlow));
    let more = table.receive(4, 1, None);
    assert!(table.puts.claim(more, SIZE / 2, (3 * SIZE, 50)).is_ok());
}

#[test]
fn a_group_of_which_nothing_is_heard_is_left_and_groups_of_an_address_are_counted() {
    let mut table = Table::new();
    let (start, wait) = (Instant::now(), GROUP_SILENCE);
    let session = table.receive(1, 1, Some("239.1.2.3:7"));
    table.receive(2, 1, Some("239.1.2.3:7"));
    table.receive(3, 1, Some("239.1.2.4:7"));
    table.receive(4, 2, Some("239.1.2.5:7"));
    let group = |text: &str| text.parse().expect("a group");
    assert_eq!(table.puts.groups_beside(session, group("239.1.2.3:7")), 1);
    assert_eq!(table.puts.groups_beside(session, group("239.1.2.9:7")), 2);
    assert!(table.puts.unheard_groups(start).is_empty());
    assert!(table.puts.unheard_groups(start + wait - Duration::from_millis(1)).is_empty());
    let left = table.puts.unheard_groups(start + wait);
    assert_eq!(left.len(), 4);
    assert_eq!(left[0], (group("239.1.2.3:7"), at(1), session));
    assert!(table.puts.unheard_groups(start + wait * 2).is_empty(), "once");
    let owner = Owner { client: at(1), key: None };
    let status = table.puts.status(session, owner);
    assert!(matches!(status, Some(Reply::Status { state: PutState::LeftGroup, .. })));
}

#[test]
fn the_object_that_hardly_comes_gives_way_once_it_is_not_young() {
    let mut table = Table::new();
    let session = table.receive(1, 1, None);
    let began = table.puts.get_mut(session).expect("there").began;
    assert_eq!(table.puts.least(began + YOUNG - Duration::from_millis(1)), None);
    assert_eq!(table.puts.least(began + YOUNG), Some(session));
    assert!(!table.puts.has_given_up());
    let put = table.puts.get_mut(session).expect("there");
    put.given_up = Some((RefusalCode::TooSlow, String::new()));
    assert!(table.puts.has_given_up());
    table.puts.end(session, Stage::Failed(RefusalCode::TooSlow));
    assert_eq!(table.puts.least(began + YOUNG), None);
    assert!(!table.puts.has_given_up());
}
