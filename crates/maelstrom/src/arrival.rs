//! Settings of the receive side, arrivals that it reports, and its counters.

use wellspring_core::Duration;

use crate::auth::SessionId;
use crate::drop_reason::DropReason;
use crate::loss_report::LossReport;

/// What is done with packets that a full queue dropped and repairs could bring back.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum CongestionLoss {
    /// They are brought back like others, as in the paper: hosts do not learn of congestion.
    #[default]
    Recover,
    /// Hosts learn of congestion: packets of ECN-capable flows are recovered with the mark CE (RFC 3168), of others one
    /// stays lost, and so do the next ones once the flow has had the time to answer.
    Signal,
}

/// What a receive side remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiveConfig {
    /// Packets: at least the reach of the peer's code (r times its largest interleave), and those
    /// that may come between a packet and its repair. The paper keeps 1,024 (§4.7).
    pub packets: usize,
    /// Repairs that lack more than one packet. The paper keeps 1,024.
    pub repairs: usize,
    /// Longest packet \[bytes\]. Longer ones cannot be recovered, nor help to.
    pub longest: usize,
    /// How long a packet that was brought back waits before it leaves, at least, in case that its repair has
    /// only overtaken it: on machines of several cores repairs and packets wait in different queues. TCP's wait
    /// only while the link loses nothing: TCP learns from what comes twice. In the paper none waits; zero is
    /// that.
    pub hold: Duration,
    /// What is done with drops of full queues.
    pub congestion: CongestionLoss,
    /// Whether TCP's packets that come back after a retransmission of their flow get its time stamp: with their own,
    /// receivers refuse them (RFC 7323 §5.3). In the paper, whose packets had no time stamps, all come back as they
    /// left.
    pub renew_stamps: bool,
}

impl Default for ReceiveConfig {
    /// The paper's: 1,024 packets and as many repairs, of 1,500 bytes; and a hold of 1 ms.
    fn default() -> Self {
        let hold = Duration::from_millis(1);
        ReceiveConfig {
            packets: 1_024,
            repairs: 1_024,
            longest: 1_500,
            hold,
            congestion: CongestionLoss::Recover,
            renew_stamps: false,
        }
    }
}

/// What a datagram of the peer brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// A repair; packets that it brought back are in the batch.
    Repair,
    /// Names of packets without repairs.
    Digest,
    /// A datagram as long as the longest repair: the path takes it.
    Probe,
    /// What the peer has measured of what this end sends: for
    /// [`SendSide::on_report`](crate::SendSide::on_report).
    Report(LossReport),
    /// A report of a session that has not named this end's: perhaps the peer's, which began anew, perhaps a recorded one.
    /// Nothing else of that session is believed until it names this end's, so whoever sent it is to have an answer
    /// ([`SendSide::answer`](crate::SendSide::answer)).
    Greeting(SessionId),
    /// Nothing: dropped, and counted.
    Dropped(DropReason),
}

/// What a receive side has seen and done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReceiveCounters {
    /// Packets seen.
    pub packets: u64,
    /// Packets that cannot be known by name: no whole IP packets, or with options.
    pub foreign: u64,
    /// Packets too long to be remembered.
    pub too_long: u64,
    /// Packets that arrived after a repair that names them, as on a link that reorders.
    pub overtaken: u64,
    /// Those of them that had been brought back and were still held, and so arrived once.
    pub withdrawn: u64,
    /// Packets that could be brought back and were not sent on: this end missed some at the time, perhaps these.
    pub doubtful: u64,
    /// Packets that could be brought back and stayed lost, for a full queue had dropped them.
    pub congested: u64,
    /// Packets that were brought back with a mark, since a full queue had dropped them.
    pub marked: u64,
    /// Packets that were brought back with the time stamp of a retransmission.
    pub renewed: u64,
    /// Digests heard.
    pub digests: u64,
    /// Datagrams dropped, by [`DropReason`].
    pub dropped: [u64; DropReason::COUNT],
    /// Reports heard.
    pub reports: u64,
    /// Times the peer began anew.
    pub sessions: u64,
}

impl ReceiveCounters {
    /// Adds what another receive side has seen and done.
    pub fn add(&mut self, other: &ReceiveCounters) {
        self.packets += other.packets;
        self.foreign += other.foreign;
        self.too_long += other.too_long;
        self.overtaken += other.overtaken;
        self.withdrawn += other.withdrawn;
        self.doubtful += other.doubtful;
        self.congested += other.congested;
        self.marked += other.marked;
        self.renewed += other.renewed;
        self.digests += other.digests;
        for (to, from) in self.dropped.iter_mut().zip(other.dropped) {
            *to += from;
        }
        self.reports += other.reports;
        self.sessions += other.sessions;
    }
}
