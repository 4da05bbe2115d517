//! State of a transfer as it is drawn.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use wellspring_client::{BlockProgress, ReceiverProgress, SenderProgress, Update};
use wellspring_console::units::{bytes, seconds};

use super::average::Average;

/// Silence of a host that is worth mentioning.
const SILENT: Duration = Duration::from_millis(500);
/// Remarks that are kept.
const MAX_REMARKS: usize = 100;
/// Hosts that are named where all are waited for.
const MAX_NAMED: usize = 3;

/// A host as it was when last heard of, and its rate.
pub struct Peer<T> {
    pub last: T,
    /// Symbols of a sender, bytes of a receiver.
    pub rate: Average,
}

/// A transfer as it is drawn.
pub struct View {
    pub title: String,
    pub size: u64,
    pub symbol_size: u64,
    pub done: u64,
    pub rate: Average,
    pub senders: Vec<Peer<SenderProgress>>,
    pub receivers: Vec<Peer<ReceiverProgress>>,
    blocks: BlockProgress,
    /// Digests that are computed, by place: how much of how much.
    hashing: BTreeMap<String, (u64, u64)>,
    has_started: bool,
    is_verifying: bool,
    pub remarks: Vec<String>,
}

/// Whether an update comes again and again, so that one may be left undrawn.
pub fn is_periodic(update: &Update) -> bool {
    matches!(
        update,
        Update::Hashing { .. }
            | Update::Moving { .. }
            | Update::Senders { .. }
            | Update::Receivers { .. }
    )
}

impl View {
    pub fn new(title: &str, now: Instant) -> Self {
        View {
            title: title.to_owned(),
            size: 0,
            symbol_size: 0,
            done: 0,
            rate: Average::new(now),
            senders: Vec::new(),
            receivers: Vec::new(),
            blocks: BlockProgress::default(),
            hashing: BTreeMap::new(),
            has_started: false,
            is_verifying: false,
            remarks: Vec::new(),
        }
    }

    pub fn take(&mut self, update: &Update, now: Instant) {
        match update {
            Update::Hashing { host, done, total } => {
                let place = host.clone().unwrap_or_else(|| "this host".to_owned());
                self.hashing.insert(place, (*done, *total));
            }
            Update::Started { size, symbol_size, .. } => {
                (self.size, self.symbol_size) = (*size, (*symbol_size).into());
                self.hashing.clear();
                (self.has_started, self.rate) = (true, Average::new(now));
            }
            Update::Moving { done, total, .. } => {
                if !self.has_started {
                    // A put says nothing when it begins; the digest is there by now.
                    self.hashing.clear();
                    (self.has_started, self.rate) = (true, Average::from(now, *done));
                }
                (self.done, self.size) = (*done, *total);
                self.rate.take(now, *done);
            }
            Update::Senders { senders, blocks } => {
                self.blocks = *blocks;
                let count = |s: &SenderProgress| s.useful + s.redundant;
                see(&mut self.senders, senders, |s| &s.host, count, now);
            }
            Update::Receivers { receivers } => {
                see(&mut self.receivers, receivers, |r| &r.host, |r| r.done, now);
            }
            Update::Verifying => self.is_verifying = true,
            Update::Lost { host, reason } => self.remark(format!("{host}: {reason}")),
            Update::Altered { host, symbols } => {
                self.remark(format!("{host}: {symbols} altered symbols, replaced"));
            }
            Update::Wrong { host, at } => {
                self.remark(format!("{host}: wrong bytes at byte {at}, fetched again"));
            }
            Update::Back { host } => self.remark(format!("{host}: takes part now")),
            Update::Shortened { symbol_size } => self.remark(shortened(*symbol_size)),
            Update::Straggler { host, symbols_behind, cause, detached } => {
                let what = if *detached { "continues by unicast" } else { "is waited for" };
                let behind = format!("{symbols_behind} symbols behind");
                self.remark(format!("{host}: {cause}, {behind}, {what}"));
            }
            Update::Complete { host } => self.remark(format!("{host}: complete")),
            Update::Quorum { complete } => {
                self.remark(format!("quorum reached: {complete} complete"));
            }
            _ => {}
        }
    }

    fn remark(&mut self, text: String) {
        if self.remarks.len() == MAX_REMARKS {
            self.remarks.remove(0);
        }
        self.remarks.push(text);
    }

    /// Blocks, and what is waited for.
    pub fn waiting(&self) -> String {
        let behind = self.hashing.iter().min_by_key(|(_, (done, _))| *done);
        if let Some((place, (done, total))) = behind {
            let (done, total) = (bytes(*done), bytes(*total));
            return format!("waits for the digest at {place}: {done} of {total}");
        }
        if !self.has_started {
            return "waits for an answer of the hosts".to_owned();
        }
        if !self.receivers.is_empty() {
            return self.waiting_for_receivers();
        }
        let BlockProgress { done, decoded, total } = self.blocks;
        let mut text = match total {
            0 => format!("{done} blocks done, {decoded} decoded"),
            total => format!("{done} of {total} blocks done, {decoded} decoded"),
        };
        let live = self.senders.iter().filter(|peer| peer.last.is_live);
        let silent = live.clone().filter(|peer| peer.last.silent >= SILENT);
        let silent: Vec<&str> = silent.map(|peer| peer.last.host.as_str()).collect();
        if self.is_verifying {
            text.push_str("; verifies and syncs");
        } else if !self.senders.is_empty() && self.done < self.size {
            match live.count() {
                0 => text.push_str("; waits for a host to come back"),
                live if live == silent.len() => {
                    text.push_str(&format!("; waits for {}", named(&silent)));
                }
                _ => {}
            }
        }
        text
    }

    fn waiting_for_receivers(&self) -> String {
        let live = self.receivers.iter().filter(|peer| peer.last.is_live);
        let idle = live.clone().filter(|peer| peer.last.idle >= SILENT);
        let idle: Vec<&str> = idle.map(|peer| peer.last.host.as_str()).collect();
        let complete = self.receivers.iter().filter(|peer| peer.last.done == peer.last.total);
        let mut text = format!("{} of {} hosts have all", complete.count(), self.receivers.len());
        if self.is_verifying {
            text.push_str("; waits until they have verified and synced");
        } else if !idle.is_empty() && idle.len() == live.count() {
            text.push_str(&format!("; waits for {}", named(&idle)));
        }
        text
    }
}

/// Takes in what is said of hosts.
fn see<T: Clone>(
    peers: &mut Vec<Peer<T>>,
    seen: &[T],
    host: impl Fn(&T) -> &String,
    count: impl Fn(&T) -> u64,
    now: Instant,
) {
    for one in seen {
        match peers.iter_mut().find(|peer| host(&peer.last) == host(one)) {
            Some(peer) => {
                peer.rate.take(now, count(one));
                peer.last = one.clone();
            }
            None => {
                peers.push(Peer { last: one.clone(), rate: Average::from(now, count(one)) });
            }
        }
    }
}

fn named(hosts: &[&str]) -> String {
    match hosts.len().saturating_sub(MAX_NAMED) {
        0 => hosts.join(", "),
        more => format!("{} and {more} more", hosts[..MAX_NAMED].join(", ")),
    }
}

/// What a sender does, for people.
pub fn sender_state(sender: &SenderProgress) -> String {
    match sender.is_live && sender.silent >= SILENT {
        true => format!("silent for {}", seconds(sender.silent)),
        false => sender.state.clone(),
    }
}

/// What a receiver does, for people.
pub fn receiver_state(receiver: &ReceiverProgress) -> String {
    match receiver.is_live && receiver.idle >= SILENT && receiver.done < receiver.total {
        true => format!("nothing new for {}", seconds(receiver.idle)),
        false => receiver.state.clone(),
    }
}

/// What became of symbols that were too long for a path, for people.
pub fn shortened(symbol_size: u16) -> String {
    format!(
        "the path carries no longer datagrams and does not say so: symbols of {symbol_size} bytes from now on \
         (--symbol-size {symbol_size} begins with them; see wellspring doctor)"
    )
}
