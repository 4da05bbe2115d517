//! Settings of the page, and links that hold them.

pub use crate::preset::{Preset, ProtocolChoice};
use core::fmt::Write;
use core::ops::RangeInclusive;

/// The longest fragment that is read \[bytes\].
const MAX_FRAGMENT: usize = 4_000;
/// The most failures and repairs.
const MAX_EVENTS: usize = 20;
/// The latest of them \[ns\]: the longest run.
const LATEST: u64 = 10_000_000_000;
/// The most payload of one run \[bytes\].
const MAX_BYTES: u64 = 100_000_000;

/// A failure or a repair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// When \[ns\].
    pub at: u64,
    /// The node: `host3`, `agg0`.
    pub node: String,
    /// A repair.
    pub up: bool,
}

/// What the visitor has set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// The story.
    pub preset: Preset,
    /// Side by side.
    pub protocols: Vec<ProtocolChoice>,
    /// Senders, or replicas.
    pub senders: u64,
    /// Size of each transfer \[bytes\].
    pub size: u64,
    /// Data packets that a switch port holds.
    pub buffer: u64,
    /// Rate of host links \[Mbit/s\].
    pub rate: u64,
    /// Propagation delay of every link \[ns\].
    pub delay: u64,
    /// Packets lost at random on every link \[per 100,000\].
    pub loss: u64,
    /// Rate of one sender's (or receiver's) link, in percent of the others'.
    pub slow: u64,
    /// Seed.
    pub seed: u64,
    /// Failures and repairs, by time.
    pub events: Vec<Cut>,
}

impl Setup {
    /// Reads the fragment of a link: `preset=incast&senders=40&seed=7`. What is not said is as in
    /// the preset.
    ///
    /// # Errors
    /// A sentence for the visitor: what is wrong, and what would be right.
    pub fn parse(fragment: &str) -> Result<Setup, String> {
        if fragment.len() > MAX_FRAGMENT {
            return Err(format!("The link is longer than {MAX_FRAGMENT} characters."));
        }
        let fragment = fragment.trim_start_matches('#');
        let pairs: Vec<(&str, &str)> = fragment
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                pair.split_once('=').ok_or_else(|| {
                    format!("The link has “{}”, which is not of the form name=value.", shown(pair))
                })
            })
            .collect::<Result<_, _>>()?;
        let preset = match pairs.iter().find(|(key, _)| *key == "preset") {
            None => Preset::Incast,
            Some((_, name)) => by_name(&Preset::ALL, Preset::as_str, name).ok_or_else(|| {
                format!(
                    "There is no story “{}”: there are {}.",
                    shown(name),
                    list(&Preset::ALL.map(Preset::as_str))
                )
            })?,
        };
        let mut setup = preset.setup();
        let gives_events = pairs.iter().any(|(key, _)| matches!(*key, "fail" | "repair"));
        if gives_events {
            setup.events.clear();
        }
        for (key, value) in pairs {
            setup.set(key, value)?;
        }
        setup.events.sort_by_key(|event| event.at);
        setup.check()?;
        Ok(setup)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let whole = |name: &str| whole(name, value);
        match key {
            "preset" => {}
            "protocols" => {
                self.protocols.clear();
                for name in value.split(['+', ',']) {
                    let found = by_name(&ProtocolChoice::ALL, ProtocolChoice::as_str, name);
                    let protocol = found.ok_or_else(|| {
                        format!(
                            "There is no protocol “{}”: there are {}.",
                            shown(name),
                            list(&ProtocolChoice::ALL.map(ProtocolChoice::as_str))
                        )
                    })?;
                    if !self.protocols.contains(&protocol) {
                        self.protocols.push(protocol);
                    }
                }
            }
            "senders" => self.senders = whole("The number of senders")?,
            "size" => self.size = whole("The size")?,
            "buffer" => self.buffer = whole("The buffer")?,
            "rate" => self.rate = whole("The rate")?,
            "delay" => self.delay = thousandths("The delay", value)?,
            "loss" => self.loss = thousandths("The loss", value)?,
            "slow" => self.slow = whole("The slow link's rate")?,
            "seed" => self.seed = whole("The seed")?,
            "fail" | "repair" => {
                for event in value.split(',').filter(|event| !event.is_empty()) {
                    let (node, at) = event.split_once('@').ok_or_else(|| {
                        format!("“{}” is not of the form node@microseconds.", shown(event))
                    })?;
                    let at = thousandths("The time of a failure", at)?;
                    self.events.push(Cut { at, node: node.to_owned(), up: key == "repair" });
                    if self.events.len() > MAX_EVENTS {
                        return Err(format!(
                            "There are more than {MAX_EVENTS} failures and repairs."
                        ));
                    }
                }
            }
            _ => {
                return Err(format!(
                    "The link has “{}”, which this page does not know.",
                    shown(key)
                ));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: u64, range: RangeInclusive<u64>, unit: &str| match range
            .contains(&value)
        {
            true => Ok(()),
            false => Err(format!(
                "{name} is {value}{unit}, but must be between {} and {}{unit}.",
                range.start(),
                range.end()
            )),
        };
        within("The number of senders", self.senders, self.preset.senders(), "")?;
        within("The size", self.size, 1_000..=16_000_000, " bytes")?;
        // With one packet a port would be full before it marks.
        within("The buffer", self.buffer, 2..=1_000, " packets")?;
        within("The rate", self.rate, self.preset.rates(), " Mbit/s")?;
        within("The delay", self.delay, self.preset.delays(), " ns")?;
        within("The loss", self.loss, 0..=20_000, " in 100,000 packets")?;
        within("The slow link's rate", self.slow, self.preset.slow(), " %")?;
        within("The seed", self.seed, 0..=u64::from(u32::MAX), "")?;
        if self.senders * self.size > MAX_BYTES {
            return Err(format!(
                "{} transfers of {} bytes are more than the {} MB that this page simulates.",
                self.senders,
                self.size,
                MAX_BYTES / 1_000_000
            ));
        }
        if self.protocols.is_empty() {
            return Err("No protocol is chosen.".to_owned());
        }
        let there = self.preset.protocols();
        if let Some(other) = self.protocols.iter().find(|protocol| !there.contains(protocol)) {
            let names: Vec<_> = there.iter().map(|protocol| protocol.as_str()).collect();
            return Err(format!(
                "The story “{}” has no “{}”: there are {}.",
                self.preset.as_str(),
                other.as_str(),
                list(&names)
            ));
        }
        for event in &self.events {
            within("The time of a failure", event.at, 0..=LATEST, " ns")?;
            let fits = event.node.len() <= 12
                && event.node.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
            if event.node.is_empty() || !fits {
                return Err(format!("“{}” is no node.", shown(&event.node)));
            }
        }
        Ok(())
    }

    /// The fragment of a link to this: what differs from the preset.
    pub fn fragment(&self) -> String {
        let base = self.preset.setup();
        let mut text = format!("preset={}", self.preset.as_str());
        let mut add = |key: &str, value: String| {
            let _ = write!(text, "&{key}={value}");
        };
        if self.protocols != base.protocols {
            let names: Vec<_> = self.protocols.iter().map(|p| p.as_str()).collect();
            add("protocols", names.join("+"));
        }
        for (key, value, usual) in [
            ("senders", self.senders, base.senders),
            ("size", self.size, base.size),
            ("buffer", self.buffer, base.buffer),
            ("rate", self.rate, base.rate),
            ("slow", self.slow, base.slow),
            ("seed", self.seed, base.seed),
        ] {
            if value != usual {
                add(key, value.to_string());
            }
        }
        for (key, value, usual) in
            [("delay", self.delay, base.delay), ("loss", self.loss, base.loss)]
        {
            if value != usual {
                add(key, with_thousandths(value));
            }
        }
        if self.events != base.events {
            for (key, up) in [("fail", false), ("repair", true)] {
                let of = self.events.iter().filter(|event| event.up == up);
                let events: Vec<_> =
                    of.map(|e| format!("{}@{}", e.node, with_thousandths(e.at))).collect();
                // An empty list says that the preset's failures do not happen.
                if !events.is_empty() || (self.events.is_empty() && !up) {
                    add(key, events.join(","));
                }
            }
        }
        text
    }
}

fn by_name<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str, wanted: &str) -> Option<T> {
    all.iter().copied().find(|one| name(*one) == wanted)
}

fn list(names: &[&str]) -> String {
    names.join(", ")
}

/// Foreign text in a message: not too long.
fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(40).filter(|c| !c.is_control()).collect();
    if text.chars().count() > 40 {
        short.push('…');
    }
    short
}

fn whole(name: &str, text: &str) -> Result<u64, String> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = if plain { text.parse().ok() } else { None };
    number.ok_or_else(|| {
        format!("{name} is “{}”, which is not a whole number of a sensible size.", shown(text))
    })
}

/// A number with up to three decimals, in thousandths.
fn thousandths(name: &str, text: &str) -> Result<u64, String> {
    let (whole_part, decimals) = text.split_once('.').unwrap_or((text, ""));
    let wrong = || {
        format!("{name} is “{}”, which is not a number with at most three decimals.", shown(text))
    };
    if decimals.len() > 3 || !decimals.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    let units = whole(name, whole_part)?;
    let parts = format!("{decimals:0<3}").parse::<u64>().map_err(|_| wrong())?;
    units.checked_mul(1_000).and_then(|units| units.checked_add(parts)).ok_or_else(wrong)
}

fn with_thousandths(value: u64) -> String {
    let text = format!("{}.{:03}", value / 1_000, value % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_is_its_own_link() {
        for preset in Preset::ALL {
            let setup = preset.setup();
            assert_eq!(setup.fragment(), format!("preset={}", preset.as_str()));
            assert_eq!(Setup::parse(&setup.fragment()), Ok(setup));
        }
        assert_eq!(Setup::parse(""), Ok(Preset::Incast.setup()));
    }

    #[test]
    fn a_link_holds_all_that_is_set() {
        let link = "preset=fetch&protocols=tcp-newreno+scdp&senders=2&size=5000&buffer=7&rate=40&slow=50&seed=9\
                    &delay=0.25&loss=1.5&fail=host3@12.5,agg1@3&repair=host3@100";
        let setup = Setup::parse(link).unwrap();
        assert_eq!(setup.protocols, [ProtocolChoice::NewReno, ProtocolChoice::Scdp]);
        assert_eq!((setup.delay, setup.loss, setup.events[0].at), (250, 1_500, 3_000));
        assert_eq!(Setup::parse(&setup.fragment()), Ok(setup));
        let link = "preset=burst&protocols=maelstrom-paper+tcp-bbr&size=5000000&buffer=70&rate=1000&seed=9&delay=25000\
                    &loss=0.05&fail=relay@12.5&repair=relay@900";
        let setup = Setup::parse(link).unwrap();
        assert_eq!(setup.protocols, [ProtocolChoice::MaelstromPaper, ProtocolChoice::Bbr]);
        assert_eq!((setup.delay, setup.events.len()), (25_000_000, 2));
        assert_eq!(Setup::parse(&setup.fragment()), Ok(setup));
        let calm = Setup { events: Vec::new(), ..Preset::Outage.setup() };
        assert_eq!(Setup::parse(&calm.fragment()), Ok(calm));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (link, says) in [
            ("senders", "not of the form"),
            ("preset=storm", "no story “storm”"),
            ("protocols=quic", "no protocol “quic”"),
            ("protocols=", "no protocol"),
            ("senders=0", "between 1 and 100"),
            ("senders=101", "between 1 and 100"),
            ("senders=99999999999999999999", "not a whole number"),
            ("senders=-1", "not a whole number"),
            ("senders=1e3", "not a whole number"),
            ("preset=fetch&senders=7", "between 1 and 6"),
            ("size=16000001", "The size"),
            ("size=16000000", "more than the 100 MB"),
            ("buffer=1", "The buffer"),
            ("rate=9", "The rate"),
            ("delay=0.0999", "three decimals"),
            ("delay=0", "The delay"),
            ("loss=21", "The loss"),
            ("loss=NaN", "not a whole number"),
            ("slow=0", "slow link"),
            ("seed=4294967296", "The seed"),
            ("fail=host1", "node@microseconds"),
            ("fail=host1@1e9", "not a whole number"),
            ("fail=host1@10000001", "The time of a failure"),
            ("fail=<b>@1", "is no node"),
            ("fail=@1", "is no node"),
            ("colour=red", "does not know"),
            ("protocols=tcp-cubic", "has no “tcp-cubic”: there are scdp, ndp"),
            ("delay=50000", "The delay"),
            ("preset=burst&protocols=scdp", "has no “scdp”: there are tcp-reno, tcp-cubic"),
            ("preset=burst&delay=5", "between 1000000 and 100000000 ns"),
            ("preset=burst&rate=10000", "between 10 and 1000 Mbit/s"),
            ("preset=burst&slow=50", "between 100 and 100 %"),
            ("preset=burst&senders=2", "between 1 and 1"),
        ] {
            let error = Setup::parse(link).unwrap_err();
            assert!(error.contains(says), "{link}: {error}");
        }
        assert!(
            Setup::parse(&format!("fail={}", "agg0@1,".repeat(21)))
                .unwrap_err()
                .contains("more than 20")
        );
        assert!(Setup::parse(&"x".repeat(4_001)).unwrap_err().contains("longer"));
        // A message repeats little of what it was given.
        assert!(Setup::parse(&format!("{}=1", "y".repeat(3_000))).unwrap_err().len() < 200);
    }
}
