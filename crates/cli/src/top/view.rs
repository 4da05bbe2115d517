//! A server's transfers with their rates, from one look at it to the next.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wellspring_console::units::{bit_rate, bytes, counted, part, percent};
use wellspring_net::store::tree::listing::{TreeName, TreePart};

use super::look::{Look, State, Transfer};
use crate::ui::average::Average;

/// How long nothing came or went of a transfer that waits for its client.
const SILENT: Duration = Duration::from_millis(900);

/// A server, as it was at the last look.
pub struct View {
    /// Where it is asked.
    asked_at: String,
    pub look: Look,
    sent: Average,
    received: Average,
    transfers: BTreeMap<Key, Seen>,
    /// Why the last looks brought nothing, and since when.
    gone: Option<(String, Instant)>,
    now: Instant,
}

/// A transfer's number with its direction and protocol.
type Key = (bool, String, u64);

/// What is kept of a transfer from look to look.
struct Seen {
    rate: Average,
    moved: u64,
    /// When it had last moved.
    at: Instant,
}

/// A transfer as it is shown.
pub struct Row<'a> {
    pub transfer: &'a Transfer,
    /// \[bit/s\]
    pub rate: f64,
    /// Of the rate of all of its direction.
    pub share: f64,
    /// Of its symbols.
    pub lost: Option<f64>,
    pub state: String,
}

/// The name of an object; what a server makes of a directory, in words.
fn in_words(name: &str) -> Cow<'_, str> {
    let Some(TreeName { directory, part }) = TreeName::parse(name) else { return name.into() };
    let part = match part {
        TreePart::Files { files, .. } => counted(u64::from(files.count()), "file"),
        TreePart::Sample { size } => format!("trial, {}", bytes(size.len() as u64)),
        TreePart::Lacks { .. } => "what is lacking".to_owned(),
        TreePart::Clear { .. } => "to make room".to_owned(),
        TreePart::Finish { .. } => "to finish".to_owned(),
        _ => "listing".to_owned(),
    };
    format!("{directory}/ ({part})").into()
}

impl Row<'_> {
    /// The object, and which way it goes.
    pub fn object(&self) -> String {
        let arrow = if self.transfer.is_put { "→" } else { "←" };
        format!("{arrow} {}", in_words(&self.transfer.object))
    }

    /// How much of it went or came, from 0 to 1.
    pub fn done(&self) -> f64 {
        let Transfer { size, done, .. } = *self.transfer;
        part(done.min(size), size)
    }

    pub fn lost(&self) -> String {
        self.lost.map_or("-".to_owned(), percent)
    }

    /// Blocks that took the decoder, of those in place.
    pub fn decoded(&self) -> String {
        let decoded = self.transfer.decoded;
        decoded.map_or("-".to_owned(), |(decoded, done)| format!("{decoded}/{done}"))
    }
}

fn key(transfer: &Transfer) -> Key {
    (transfer.is_put, transfer.protocol.clone(), transfer.number)
}

impl View {
    /// Of a server that is asked there, after the first look.
    pub fn new(asked_at: String, look: Look, now: Instant) -> Self {
        let mut view = View {
            asked_at,
            sent: Average::from(now, look.sent),
            received: Average::from(now, look.received),
            look: Look::default(),
            transfers: BTreeMap::new(),
            gone: None,
            now,
        };
        view.take(Ok(look), now);
        view
    }

    /// Takes in a look, or why there is none.
    pub fn take(&mut self, look: Result<Look, String>, now: Instant) {
        self.now = now;
        let look = match look {
            Ok(look) => look,
            Err(why) => {
                let since = self.gone.take().map_or(now, |(_, since)| since);
                self.gone = Some((why, since));
                return;
            }
        };
        if self.look.sent > look.sent || self.look.received > look.received {
            // Another server, or the same again.
            self.transfers.clear();
            (self.sent, self.received) =
                (Average::from(now, look.sent), Average::from(now, look.received));
        }
        self.gone = None;
        self.sent.take(now, look.sent);
        self.received.take(now, look.received);
        let mut before = std::mem::take(&mut self.transfers);
        for transfer in &look.transfers {
            let (key, moved) = (key(transfer), transfer.moved);
            let seen = match before.remove(&key) {
                Some(mut seen) => {
                    seen.rate.take(now, moved);
                    let at = if seen.moved == moved { seen.at } else { now };
                    Seen { moved, at, ..seen }
                }
                None => Seen { rate: Average::from(now, moved), moved, at: now },
            };
            self.transfers.insert(key, seen);
        }
        self.look = look;
    }

    /// The server, and its version.
    pub fn title(&self) -> String {
        let Look { version, address, .. } = &self.look;
        format!("wellspring {version} at {address} (metrics {})", self.asked_at)
    }

    /// What all transfers make; or why it is not known.
    pub fn summary(&self) -> String {
        if let Some((why, since)) = &self.gone {
            let silent = self.now.duration_since(*since).as_secs();
            return format!("{why}; asked again, for {silent} s");
        }
        let look = &self.look;
        let (out, into) = (self.sent.per_second() * 8.0, self.received.per_second() * 8.0);
        let mut text = format!(
            "{}, {}; out {}, in {}; {} refused",
            if look.sending == 1 {
                "1 fetch".to_owned()
            } else {
                format!("{} fetches", look.sending)
            },
            counted(look.receiving, "put"),
            bit_rate(out),
            bit_rate(into),
            look.refused,
        );
        if look.stopping {
            text.push_str("; stopping");
        }
        let left = (look.sending + look.receiving).saturating_sub(look.transfers.len() as u64);
        if left > 0 {
            text.push_str(&format!("; {left} more are not listed"));
        }
        text
    }

    /// Whether the last look brought something.
    pub fn is_there(&self) -> bool {
        self.gone.is_none()
    }

    /// The transfers, `most` of them, in the order in which they began; if there are more, the fastest.
    pub fn rows(&self, most: usize) -> Vec<Row<'_>> {
        let rate = |transfer: &Transfer| {
            self.transfers.get(&key(transfer)).map_or(0.0, |seen| seen.rate.per_second())
        };
        let mut all: Vec<(&Transfer, f64)> =
            self.look.transfers.iter().map(|transfer| (transfer, rate(transfer))).collect();
        let of = |put: bool| {
            let rates = all.iter().filter(|(transfer, _)| transfer.is_put == put);
            rates.map(|(_, rate)| rate).sum::<f64>()
        };
        let total = [of(false), of(true)];
        all.sort_by_cached_key(|(transfer, _)| key(transfer));
        if most < all.len() {
            all.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        }
        let rows = all.into_iter().take(most);
        rows.map(|(transfer, rate)| self.row(transfer, rate, total[usize::from(transfer.is_put)]))
            .collect()
    }

    fn row<'a>(&self, transfer: &'a Transfer, rate: f64, total: f64) -> Row<'a> {
        let share = if total > 0.0 { rate / total } else { 0.0 };
        let lost = transfer.lost.map(|(lost, all)| part(lost, all));
        Row { transfer, rate: rate * 8.0, share, lost, state: self.state(transfer) }
    }

    /// What a transfer does, or waits for.
    fn state(&self, transfer: &Transfer) -> String {
        let idle = self.transfers.get(&key(transfer)).map(|seen| self.now.duration_since(seen.at));
        let idle = idle.unwrap_or_default();
        let mut text = match transfer.state {
            State::Opening => "opens files".to_owned(),
            State::Checking => "verifies what is here".to_owned(),
            State::Verifying => "verifies and syncs".to_owned(),
            State::Moving if idle >= SILENT => {
                let what = if transfer.is_put { "symbols" } else { "pulls" };
                format!("waits for {what}, {} s", idle.as_secs_f64().round())
            }
            State::Moving => if transfer.is_put { "receives" } else { "sends" }.to_owned(),
        };
        if transfer.multicast {
            text.push_str(" (group)");
        }
        text
    }

    /// All of it, for programs.
    pub fn to_json(&self) -> Value {
        let transfers = self.rows(usize::MAX);
        let transfers = transfers.into_iter().map(|row| {
            let Transfer { object, protocol, size, done, is_put, .. } = row.transfer;
            json!({
                "client": row.transfer.client,
                "object": object,
                "direction": if *is_put { "receive" } else { "send" },
                "protocol": protocol,
                "size": size,
                "done": done,
                "rate": row.rate,
                "share": row.share,
                "lost": row.lost,
                "blocks_decoded": row.transfer.decoded.map(|(decoded, _)| decoded),
                "blocks_done": row.transfer.decoded.map(|(_, done)| done),
                "state": row.state,
            })
        });
        json!({
            "server": self.look.address,
            "version": self.look.version,
            "error": self.gone.as_ref().map(|(why, _)| why),
            "stopping": self.look.stopping,
            "sending": self.look.sending,
            "receiving": self.look.receiving,
            "refused": self.look.refused,
            "rate_out": self.sent.per_second() * 8.0,
            "rate_in": self.received.per_second() * 8.0,
            "transfers": transfers.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn fetch(number: u64, moved: u64) -> Transfer {
        Transfer {
            number,
            client: format!("192.0.2.{number}:40000"),
            object: format!("models/{number}.bin"),
            protocol: "SCDP".to_owned(),
            size: 1_000_000,
            done: moved.min(1_000_000),
            moved,
            lost: Some((moved / 100, moved)),
            ..Transfer::default()
        }
    }

    pub fn put(number: u64, moved: u64) -> Transfer {
        let decoded = Some((1, 4));
        Transfer { is_put: true, multicast: true, decoded, ..fetch(number, moved) }
    }

    pub fn look(transfers: Vec<Transfer>) -> Look {
        let sent = transfers.iter().filter(|t| !t.is_put).map(|t| t.moved).sum();
        let received = transfers.iter().filter(|t| t.is_put).map(|t| t.moved).sum();
        let version = "0.1.0".to_owned();
        let address = "192.0.2.100:4711".to_owned();
        Look { version, address, sent, received, transfers, ..Look::default() }
    }

    pub fn second_look(before: Vec<Transfer>, after: Vec<Transfer>) -> View {
        let now = Instant::now();
        let mut view = View::new("192.0.2.100:9464".to_owned(), look(before), now);
        view.take(Ok(look(after)), now + Duration::from_secs(1));
        view
    }

    #[test]
    fn rates_and_shares_are_those_between_two_looks() {
        let view = second_look(
            vec![fetch(1, 100_000), fetch(2, 0), put(1, 50_000)],
            vec![fetch(1, 400_000), fetch(2, 100_000), put(1, 50_000)],
        );
        let rows = view.rows(10);
        let of = |row: &Row| (row.rate.round(), (row.share * 100.0).round());
        assert_eq!(of(&rows[0]), (2_400_000.0, 75.0));
        assert_eq!(of(&rows[1]), (800_000.0, 25.0));
        assert_eq!((rows[0].state.as_str(), rows[0].done()), ("sends", 0.4));
        assert_eq!(rows[2].state, "waits for symbols, 1 s (group)");
        assert_eq!((rows[0].lost(), rows[0].decoded()), ("1.0 %".to_owned(), "-".to_owned()));
        assert_eq!(rows[2].decoded(), "1/4");
        assert!(view.summary().contains("out 3.2 Mbit/s, in 0 bit/s"), "{}", view.summary());
        let json = view.to_json();
        assert_eq!(json["transfers"][1]["share"], 0.25);
        assert_eq!(json["transfers"][2]["direction"], "receive");
    }

    #[test]
    fn what_is_made_of_a_directory_is_shown_in_words() {
        let listing = "534c8b98923cf3045054444ac2d7310e";
        for (name, words) in [
            (format!("tree//files:{listing}:0x104"), "tree/ (104 files)"),
            (format!("a/b//files:{listing}:7"), "a/b/ (1 file)"),
            (format!("tree//finish:{listing}"), "tree/ (to finish)"),
            ("tree//put".to_owned(), "tree/ (listing)"),
            ("//sample:64000".to_owned(), "/ (trial, 64.0 kB)"),
            ("tree//other".to_owned(), "tree//other"),
        ] {
            assert_eq!(in_words(&name), words);
        }
    }

    #[test]
    fn the_fastest_are_shown_where_there_is_no_room_for_all() {
        let view = second_look(
            vec![fetch(1, 0), fetch(2, 0), fetch(3, 0)],
            vec![fetch(1, 10), fetch(2, 30), fetch(3, 20)],
        );
        let shown =
            |most| view.rows(most).iter().map(|row| row.transfer.number).collect::<Vec<_>>();
        assert_eq!(shown(3), [1, 2, 3]);
        assert_eq!(shown(2), [2, 3]);
    }

    #[test]
    fn a_server_that_is_gone_is_told_and_one_that_comes_again_begins_anew() {
        let mut view = second_look(vec![fetch(1, 0)], vec![fetch(1, 500_000)]);
        let later = |seconds| view.now + Duration::from_secs(seconds);
        let (gone, again, then) = (later(1), later(4), later(5));
        view.take(Err("connection refused".to_owned()), gone);
        view.take(Err("connection refused".to_owned()), again);
        assert_eq!(view.summary(), "connection refused; asked again, for 3 s");
        assert_eq!(view.to_json()["error"], "connection refused");
        view.take(Ok(look(vec![fetch(1, 10)])), then);
        assert!(view.is_there());
        assert_eq!(view.rows(1)[0].rate, 0.0, "of another transfer");
    }

    #[test]
    fn transfers_that_are_not_listed_are_counted() {
        let mut all = look(vec![fetch(1, 0)]);
        (all.sending, all.receiving, all.stopping) = (300, 2, true);
        let view = View::new(String::new(), all, Instant::now());
        let summary = view.summary();
        assert!(summary.starts_with("300 fetches, 2 puts;"), "{summary}");
        assert!(summary.ends_with("stopping; 301 more are not listed"), "{summary}");
    }
}
