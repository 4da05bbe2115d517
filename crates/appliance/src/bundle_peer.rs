//! Other end of bundles: whether each of the two hears the other.

use std::time::{Duration, Instant};

use wellspring_maelstrom::{BundleHello, SessionId};

/// How often a hello leaves, and how often one as long as the longest bundle.
pub(crate) const HELLO_EVERY: Duration = Duration::from_millis(100);
const LONG_EVERY: u32 = 10;
/// The silence after which the peer counts as gone, and the time without a long hello after which the path takes none.
const SILENCE: Duration = Duration::from_millis(500);
const LONG_SILENCE: Duration = Duration::from_millis(3_500);

/// What is known of it.
#[derive(Debug)]
pub(crate) struct BundlePeer {
    own: SessionId,
    heard: Option<Instant>,
    heard_long: Option<Instant>,
    /// When it last said that it hears this end, long hellos too, if it has not denied that since.
    hears_this: Option<Instant>,
    hellos: u32,
}

impl BundlePeer {
    /// `own` is the session of this end's bundler.
    pub(crate) fn new(own: SessionId) -> Self {
        BundlePeer { own, heard: None, heard_long: None, hears_this: None, hellos: 0 }
    }

    /// A bundle of its session came.
    pub(crate) fn on_bundle(&mut self, now: Instant) {
        self.heard = Some(now);
    }

    /// A hello of its session came.
    pub(crate) fn on_hello(&mut self, now: Instant, hello: &BundleHello) {
        self.heard = Some(now);
        if hello.is_long {
            self.heard_long = Some(now);
        }
        let hears_this = hello.hears == Some(self.own) && hello.hears_long;
        self.hears_this = hears_this.then_some(now);
    }

    /// What the next hello says to the peer, whose session is that.
    pub(crate) fn hello(&mut self, now: Instant, session: Option<SessionId>) -> BundleHello {
        let is_long = self.hellos.is_multiple_of(LONG_EVERY);
        self.hellos = self.hellos.wrapping_add(1);
        BundleHello {
            hears: session.filter(|_| self.is_heard(now)),
            hears_long: within(self.heard_long, now, LONG_SILENCE),
            is_long,
        }
    }

    /// Whether it was heard lately: what it sends is unpacked.
    pub(crate) fn is_heard(&self, now: Instant) -> bool {
        within(self.heard, now, SILENCE)
    }

    /// Whether it takes what is sent to it: it says so, and said so lately.
    pub(crate) fn takes_bundles(&self, now: Instant) -> bool {
        within(self.hears_this, now, SILENCE)
    }
}

fn within(at: Option<Instant>, now: Instant, span: Duration) -> bool {
    at.is_some_and(|at| now.saturating_duration_since(at) < span)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: SessionId = SessionId { start: 5, random: 5 };
    const PEER: SessionId = SessionId { start: 6, random: 6 };

    /// Two ends that exchange hellos for some seconds, as far as what is `lost` lets them: the sender and the hello. Whether
    /// each sends bundles in the end.
    fn after(seconds: u32, lost: impl Fn(usize, &BundleHello, u32) -> bool) -> [bool; 2] {
        let begin = Instant::now();
        let sessions = [OWN, PEER];
        let mut ends = sessions.map(BundlePeer::new);
        let mut takes = [false; 2];
        for tenth in 0..seconds * 10 {
            let now = begin + HELLO_EVERY * tenth;
            for sender in 0..2 {
                let hello = ends[sender].hello(now, Some(sessions[1 - sender]));
                if !lost(sender, &hello, tenth) {
                    ends[1 - sender].on_hello(now, &hello);
                }
            }
            takes = [0, 1].map(|end| ends[end].takes_bundles(now));
        }
        takes
    }

    #[test]
    fn both_send_bundles_while_both_hear_each_other() {
        assert_eq!(after(2, |_, _, _| false), [true; 2]);
        // Some hellos are lost, long ones too.
        assert_eq!(after(20, |sender, _, tenth| tenth % 3 == sender as u32), [true; 2]);
    }

    #[test]
    fn nobody_sends_bundles_to_an_end_that_does_not_hear_it() {
        let one_way = |sender, _: &BundleHello, _| sender == 0;
        assert_eq!(after(3, one_way), [false; 2]);
        let later = |sender, _: &BundleHello, tenth: u32| sender == 0 && tenth > 50;
        assert_eq!(after(7, later), [false; 2]);
        let gone = |sender, _: &BundleHello, tenth: u32| sender == 1 && tenth > 50;
        assert_eq!(after(6, gone), [false; 2]);
    }

    #[test]
    fn a_path_that_takes_short_datagrams_alone_takes_no_bundles() {
        let short = |sender, hello: &BundleHello, _| sender == 0 && hello.is_long;
        assert_eq!(after(3, short), [false, true]);
        let later = |sender, hello: &BundleHello, tenth| short(sender, hello, tenth) && tenth > 50;
        assert_eq!(after(10, later), [false, true]);
    }

    #[test]
    fn who_hears_another_session_takes_no_bundles() {
        let mut peer = BundlePeer::new(OWN);
        let now = Instant::now();
        for (hears, takes) in [(Some(OWN), true), (Some(PEER), false), (None, false)] {
            peer.on_hello(now, &BundleHello { hears, hears_long: true, is_long: true });
            assert_eq!(peer.takes_bundles(now), takes, "{hears:?}");
        }
        // An answer to one that is only about to be believed is no promise.
        peer.on_hello(now, &BundleHello::answer(OWN));
        assert!(!peer.takes_bundles(now));
    }
}
