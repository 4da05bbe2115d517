//! Pairs of hosts that share one bottleneck, or several equal-cost paths, in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use wellspring_core::{
    Destination, Duration, Ecn, Endpoint, Frame, GroupId, HostId, RandomStream, Rate, Seed, Time,
    Verdict, Work, WorkDone,
};

use crate::Checked;

/// Bytes of a frame on the wire beside its transport header and payload: IP's.
const IP_HEADER: u64 = 20;

/// The link all data crosses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bottleneck {
    /// Its rate.
    pub rate: Rate,
    /// What waits for it at most \[bytes\]; the rest is dropped.
    pub queue: u64,
    /// Part of the packets lost at random behind it.
    pub loss: f64,
    /// Part of the packets lost at random on the way back.
    pub loss_back: f64,
    /// Packets that find more than this waiting are marked, if they are ECN-capable \[bytes\].
    pub mark_above: Option<u64>,
}

/// One of the links that data crosses.
#[derive(Debug)]
struct Line<H> {
    bottleneck: Bottleneck,
    queue: VecDeque<Frame<H>>,
    queued_bytes: u64,
    busy: bool,
}

/// What one pair of hosts is like.
#[derive(Debug)]
pub struct Pair<E> {
    /// Sends data to the other: host `2 i` of the `i`th pair.
    pub sender: E,
    /// Host `2 i + 1`.
    pub receiver: E,
    /// Round trip without queueing.
    pub rtt: Duration,
    /// A random span up to that is added to every packet's way.
    pub jitter: Duration,
}

#[derive(Debug)]
struct Host<E: Endpoint> {
    endpoint: Checked<E>,
    uplink_free: Time,
    wake: Option<Time>,
    done: VecDeque<WorkDone>,
}

#[derive(Debug)]
enum Action<H> {
    AtBottleneck(Frame<H>),
    BottleneckFree(usize),
    Deliver(usize, Frame<H>),
    Wake(usize),
}

#[derive(Debug)]
struct Entry<H>(Reverse<(u64, u64)>, Action<H>);

impl<H> PartialEq for Entry<H> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<H> Eq for Entry<H> {}

impl<H> PartialOrd for Entry<H> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<H> Ord for Entry<H> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

/// The network. Pulls and acknowledgements go back without a bottleneck. It starts at [`Time::ZERO`].
#[derive(Debug)]
pub struct Dumbbell<E: Endpoint> {
    now: Time,
    lines: Vec<Line<E::Header>>,
    /// Which line frames with a path label take, both ways: by the label's remainder.
    routes: Vec<usize>,
    hosts: Vec<Host<E>>,
    groups: BTreeMap<GroupId, Vec<HostId>>,
    rtts: Vec<(Duration, Duration)>,
    events: BinaryHeap<Entry<E::Header>>,
    sequence: u64,
    rng: RandomStream,
    /// Payload kept by each pair's receiver so far \[bytes\].
    pub delivered: Vec<u64>,
    /// Packets of each pair that the full queue dropped.
    pub dropped: Vec<u64>,
    /// Bytes on the wire that each pair offered to the bottleneck.
    pub offered: Vec<u64>,
    /// Time-average of what waits: sum of bytes times picoseconds.
    waited: (u128, Time),
}

impl<E: Endpoint> Dumbbell<E>
where
    E::CommandError: std::fmt::Debug,
{
    /// A network of these pairs.
    pub fn new(
        seed: Seed,
        bottleneck: Bottleneck,
        pairs: impl IntoIterator<Item = Pair<E>>,
    ) -> Self {
        Self::with_paths(seed, &[bottleneck], &[0], pairs)
    }

    /// A network of these pairs with several equal-cost paths: frames with path label `l` take the line that
    /// `routes[l % routes.len()]` numbers.
    pub fn with_paths(
        seed: Seed,
        lines: &[Bottleneck],
        routes: &[usize],
        pairs: impl IntoIterator<Item = Pair<E>>,
    ) -> Self {
        let line =
            |&bottleneck| Line { bottleneck, queue: VecDeque::new(), queued_bytes: 0, busy: false };
        let lines = lines.iter().map(line).collect();
        let (mut hosts, mut rtts) = (Vec::new(), Vec::new());
        for pair in pairs {
            rtts.push((pair.rtt, pair.jitter));
            for endpoint in [pair.sender, pair.receiver] {
                let endpoint = Checked::new(endpoint);
                let (wake, done) = (None, VecDeque::new());
                hosts.push(Host { endpoint, uplink_free: Time::ZERO, wake, done });
            }
        }
        let pairs = rtts.len();
        Dumbbell {
            now: Time::ZERO,
            lines,
            routes: routes.to_vec(),
            hosts,
            groups: BTreeMap::new(),
            rtts,
            events: BinaryHeap::new(),
            sequence: 0,
            rng: seed.stream("testkit dumbbell"),
            delivered: vec![0; pairs],
            dropped: vec![0; pairs],
            offered: vec![0; pairs],
            waited: (0, Time::ZERO),
        }
    }

    /// Virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// An endpoint.
    pub fn endpoint(&self, host: HostId) -> &E {
        self.hosts[host.0 as usize].endpoint.inner()
    }

    /// Names the members of a group, receivers of pairs: what is sent to it crosses the bottleneck once.
    pub fn set_group(&mut self, group: GroupId, members: Vec<HostId>) {
        self.groups.insert(group, members);
    }

    /// Changes the bottleneck, or the first line of several.
    pub fn bottleneck_mut(&mut self) -> &mut Bottleneck {
        self.line_mut(0)
    }

    /// Changes a line.
    pub fn line_mut(&mut self, number: usize) -> &mut Bottleneck {
        &mut self.lines[number].bottleneck
    }

    fn route(&self, frame: &Frame<E::Header>) -> usize {
        self.routes[usize::from(frame.path) % self.routes.len()]
    }

    /// Gives a host a command.
    ///
    /// # Panics
    /// If the endpoint refuses it.
    pub fn command(&mut self, host: HostId, command: E::Command) {
        let now = self.now;
        let host = host.0 as usize;
        self.hosts[host].endpoint.handle_command(now, command).expect("the command fits");
        self.drain(host);
    }

    /// Runs for `span`, or until nothing is left to happen.
    pub fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(Entry(Reverse((at, _)), _)) = self.events.peek() {
            if *at > end.as_picos() {
                break;
            }
            let Entry(Reverse((at, _)), action) = self.events.pop().expect("it was there");
            self.now = Time::from_picos(at);
            self.act(action);
        }
        self.now = end;
    }

    /// Mean number of bytes that waited from the start until now.
    pub fn mean_queue(&self) -> f64 {
        self.waited.0 as f64 / self.waited.1.as_picos().max(1) as f64
    }

    fn schedule(&mut self, at: Time, action: Action<E::Header>) {
        self.sequence += 1;
        self.events.push(Entry(Reverse((at.as_picos(), self.sequence)), action));
    }

    fn act(&mut self, action: Action<E::Header>) {
        match action {
            Action::AtBottleneck(frame) => self.enqueue(frame),
            Action::BottleneckFree(line) => {
                self.lines[line].busy = false;
                self.serve(line);
            }
            Action::Deliver(host, frame) => self.deliver(host, &frame),
            Action::Wake(host) => {
                let now = self.now;
                let state = &mut self.hosts[host];
                if state.wake.is_some_and(|at| at.as_picos() <= now.as_picos()) {
                    state.wake = None;
                }
                let due = |at: Time| at.as_picos() <= now.as_picos();
                if state.endpoint.poll_timeout().is_some_and(due) {
                    state.endpoint.handle_timeout(now);
                }
                self.drain(host);
            }
        }
    }

    fn note_waiting(&mut self) {
        let span = self.now.since(self.waited.1).as_picos();
        let waiting: u64 = self.lines.iter().map(|line| line.queued_bytes).sum();
        self.waited.0 += u128::from(waiting) * u128::from(span);
        self.waited.1 = self.now;
    }

    fn enqueue(&mut self, mut frame: Frame<E::Header>) {
        let bytes = wire_bytes(&frame);
        let pair = frame.source.0 as usize / 2;
        self.offered[pair] += bytes;
        self.note_waiting();
        let number = self.route(&frame);
        let line = &mut self.lines[number];
        if line.queued_bytes + bytes > line.bottleneck.queue {
            self.dropped[pair] += 1;
            return;
        }
        if frame.ecn == Ecn::Capable
            && line.bottleneck.mark_above.is_some_and(|above| line.queued_bytes > above)
        {
            frame.ecn = Ecn::Marked;
        }
        line.queued_bytes += bytes;
        line.queue.push_back(frame);
        self.serve(number);
    }

    fn serve(&mut self, number: usize) {
        if self.lines[number].busy {
            return;
        }
        self.note_waiting();
        let line = &mut self.lines[number];
        let Some(frame) = line.queue.pop_front() else { return };
        let bytes = wire_bytes(&frame);
        line.queued_bytes -= bytes;
        line.busy = true;
        let Bottleneck { rate, loss, .. } = line.bottleneck;
        let sent = self.now + rate.time_for(bytes);
        self.schedule(sent, Action::BottleneckFree(number));
        if !self.rng.chance(loss) {
            self.travel(sent, frame);
        }
    }

    /// Half a round trip later the frame is there, or its copies.
    fn travel(&mut self, sent: Time, frame: Frame<E::Header>) {
        match frame.destination {
            Destination::Host(to) => self.travel_to(to.0 as usize, sent, frame),
            Destination::Group(group) => {
                for member in self.groups.get(&group).cloned().unwrap_or_default() {
                    self.travel_to(member.0 as usize, sent, frame);
                }
            }
        }
    }

    fn travel_to(&mut self, host: usize, sent: Time, frame: Frame<E::Header>) {
        // The way of a receiver, there and back.
        let source = frame.source.0 as usize;
        let pair = if source.is_multiple_of(2) { host } else { source } / 2;
        let (rtt, jitter) = self.rtts[pair];
        let late = match jitter.as_picos() {
            0 => Duration::ZERO,
            most => Duration::from_picos(self.rng.below(most)),
        };
        self.schedule(sent + rtt / 2 + late, Action::Deliver(host, frame));
    }

    fn deliver(&mut self, host: usize, frame: &Frame<E::Header>) {
        let verdict = self.hosts[host].endpoint.handle_frame(self.now, frame);
        if matches!(verdict, Verdict::Keep(_)) {
            self.delivered[host / 2] += u64::from(frame.payload_len);
        }
        self.drain(host);
    }

    fn drain(&mut self, host: usize) {
        let now = self.now;
        loop {
            let state = &mut self.hosts[host];
            while let Some(work) = state.endpoint.poll_work() {
                let Work::Finish { session, sbn, .. } = work;
                state.done.push_back(WorkDone::Finished { session, sbn });
            }
            while state.endpoint.poll_event().is_some() {}
            self.transmit(host);
            let state = &mut self.hosts[host];
            let Some(done) = state.done.pop_front() else { break };
            state.endpoint.handle_work_done(now, done);
        }
        self.plan_wake(host);
    }

    /// A host's own link is ten times as fast as the bottleneck.
    fn transmit(&mut self, host: usize) {
        loop {
            let state = &mut self.hosts[host];
            if state.uplink_free.as_picos() > self.now.as_picos() {
                return;
            }
            let Some(frame) = state.endpoint.poll_transmit(self.now) else { return };
            let Bottleneck { rate, loss_back, .. } = self.lines[self.route(&frame)].bottleneck;
            let picos = rate.time_for(wire_bytes(&frame)).as_picos() / 10;
            let sent = self.now + Duration::from_picos(picos.max(1));
            self.hosts[host].uplink_free = sent;
            if host.is_multiple_of(2) {
                self.schedule(sent, Action::AtBottleneck(frame));
            } else if !self.rng.chance(loss_back) {
                self.travel(sent, frame);
            }
            self.schedule(sent, Action::Wake(host));
        }
    }

    fn plan_wake(&mut self, host: usize) {
        let state = &mut self.hosts[host];
        let Some(deadline) = state.endpoint.poll_timeout() else { return };
        // What is due now waits for the link, which wakes the host.
        let at = deadline.as_picos();
        if at <= self.now.as_picos() && state.uplink_free.as_picos() > self.now.as_picos() {
            return;
        }
        let at = at.max(self.now.as_picos() + 1);
        if state.wake.is_none_or(|planned| at < planned.as_picos()) {
            state.wake = Some(Time::from_picos(at));
            self.schedule(Time::from_picos(at), Action::Wake(host));
        }
    }
}

fn wire_bytes<H: wellspring_core::Header>(frame: &Frame<H>) -> u64 {
    u64::from(frame.transport_len()) + IP_HEADER
}
