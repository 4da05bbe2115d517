//! Judgements on what was measured of a path.

use std::time::Duration;

use wellspring_client::{
    ClassEcho, DEFAULT_DATAGRAM_LEN, DatagramLens, FetchReport, HostError, HostTrouble, RoundTrips,
};
use wellspring_console::units::{bit_rate, bytes, part, percent, seconds};
use wellspring_net::wellspring_wire::control::Abilities;
use wellspring_net::wellspring_wire::scdp::HEADER_WITH_OPTIONS_LEN;

use super::check::Check;

/// Longest round trip that transfers are made for.
const LONG: Duration = Duration::from_millis(600);
/// Variation of the round trip that is worth a remark, in ms and as a part of the round trip.
const UNSTEADY: (Duration, u32) = (Duration::from_millis(5), 2);
/// Loss that is worth a remark.
const LOSSY: f64 = 0.001;
/// Difference of clocks that is worth a remark \[us\].
const APART: i64 = 2_000_000;
/// Shortest symbols that make sense \[bytes\].
const LEAST_SYMBOL: u16 = 64;

pub fn of_round_trips(trips: &RoundTrips) -> Check {
    let name = "round trip";
    let answered = trips.times.len() as u32;
    let Some((median, variation)) = trips.median().zip(trips.variation()) else {
        return Check::failure(name, format!("none of {} probes was answered", trips.sent)).advice(
            "The first datagram was answered and the next ones were not: something limits them.",
        );
    };
    let (least, most) = (trips.times[0], trips.times[trips.times.len() - 1]);
    let mut finding = format!("{} (from {} to {})", ms(median), ms(least), ms(most));
    let lost = trips.sent - answered;
    if lost > 0 {
        finding.push_str(&format!("; {lost} of {} probes were lost", trips.sent));
    }
    let check = if lost > 0 {
        Check::warning(name, finding)
            .advice("The path loses datagrams: see the line of the transfer.")
    } else if median > LONG {
        Check::warning(name, finding)
            .advice("Transfers begin slowly on so long a path; --timeout must be well above it.")
    } else if variation > UNSTEADY.0 && variation * UNSTEADY.1 > median {
        Check::warning(name, finding)
            .advice("Queues build up on the path, or a host is busy: other traffic fills a link.")
    } else {
        Check::ok(name, finding)
    };
    check
        .figure("seconds", median.as_secs_f64())
        .figure("seconds_least", least.as_secs_f64())
        .figure("seconds_most", most.as_secs_f64())
        .figure("seconds_variation", variation.as_secs_f64())
        .figure("probes", trips.sent)
        .figure("probes_lost", lost)
}

pub fn of_clock(trips: &RoundTrips) -> Option<Check> {
    let ahead = trips.clock_ahead_us?;
    let error = trips.times.first()?.as_micros() as i64 / 2;
    let (name, seconds) = ("clock", ahead as f64 / 1e6);
    let finding = match ahead {
        _ if ahead.saturating_abs() <= error => "the clocks agree".to_owned(),
        _ => {
            let side = if ahead > 0 { "ahead of" } else { "behind" };
            let by = Duration::from_micros(ahead.unsigned_abs());
            format!("the server's is {} {side} this host's", ms(by))
        }
    };
    let check = if ahead.saturating_abs() > APART {
        Check::warning(name, finding).advice(
            "Transfers do not depend on clocks. Times of files do, which tell what has changed in a directory, \
             and so do Maelstrom's appliances: run NTP on both.",
        )
    } else {
        Check::ok(name, finding)
    };
    Some(check.figure("seconds_ahead", seconds).figure("seconds_error", error as f64 / 1e6))
}

/// Judges lengths of datagrams; `passed` is whether a trial passed, whose symbols had their default size.
pub fn of_datagrams(lens: &DatagramLens, sealing_overhead: u16, passed: Option<bool>) -> Check {
    let name = "datagrams";
    let both = lens.both();
    let largest_symbol = both.saturating_sub(HEADER_WITH_OPTIONS_LEN as u16 + sealing_overhead);
    let limits = if lens.there == lens.back {
        format!("{both} bytes of UDP pass both ways")
    } else {
        format!("{} bytes of UDP pass there, {} back", lens.there, lens.back)
    };
    let fits = both >= DEFAULT_DATAGRAM_LEN;
    let check = if fits {
        Check::ok(name, limits)
    } else if largest_symbol < LEAST_SYMBOL {
        Check::failure(name, limits)
            .advice("No symbol fits: some link on the path is misconfigured.")
    } else if lens.vanish() && passed != Some(true) {
        Check::failure(name, format!("{limits}; longer ones vanish without a word")).advice(format!(
            "A router or firewall on the path drops ICMP: let \"fragmentation needed\" and \"packet too big\" pass, or \
             give get and put --symbol-size {largest_symbol} (symbols of default size take {DEFAULT_DATAGRAM_LEN} bytes)."
        ))
    } else if lens.vanish() {
        Check::warning(name, format!("{limits}; longer ones vanish without a word")).advice(format!(
            "A router or firewall on the path drops ICMP. A transfer by SCDP that gets nothing through finds that out after \
             a second and goes on with shorter symbols; beside hosts with wider paths, and with --range, it does not: give \
             --symbol-size {largest_symbol}."
        ))
    } else {
        Check::warning(name, limits).advice(format!(
            "Symbols of default size take {DEFAULT_DATAGRAM_LEN} bytes and travel in fragments, of which each must arrive, \
             unless this host has learned the limit: --symbol-size {largest_symbol} avoids that."
        ))
    };
    check
        .figure("udp_payload_there", lens.there)
        .figure("udp_payload_back", lens.back)
        .figure("udp_payload_tried", lens.tried)
        .figure("largest_symbol_size", largest_symbol)
}

pub fn of_offload(here: Abilities, there: Abilities) -> Check {
    let lacks = |of: Abilities| {
        let wanted = [(Abilities::SEGMENTATION, "GSO"), (Abilities::COALESCING, "GRO")];
        let lacking = wanted.into_iter().filter(|(ability, _)| !of.has(*ability));
        lacking.map(|(_, name)| name).collect::<Vec<_>>().join(" and ")
    };
    let (name, lacks_here, lacks_there) = ("offload", lacks(here), lacks(there));
    let lacking = [("this host", &lacks_here), ("the server", &lacks_there)];
    let lacking: Vec<_> = lacking.iter().filter(|(_, what)| !what.is_empty()).collect();
    let check = if lacking.is_empty() {
        Check::ok(name, "GSO and GRO on both hosts")
    } else {
        let text: Vec<_> =
            lacking.iter().map(|(who, what)| format!("{who} has no {what}")).collect();
        Check::warning(name, text.join(", ")).advice(
            "Several times the processor time for each byte; Linux has them since 4.18 and 5.0.",
        )
    };
    check
        .figure("gso_here", here.has(Abilities::SEGMENTATION))
        .figure("gro_here", here.has(Abilities::COALESCING))
        .figure("gso_there", there.has(Abilities::SEGMENTATION))
        .figure("gro_there", there.has(Abilities::COALESCING))
}

pub fn of_trims(allowed_here: bool, seen_there: bool, wanted: bool) -> Check {
    let name = "trims";
    let finding = match (allowed_here, seen_there) {
        (true, true) => "both hosts see trimmed packets",
        (true, false) => "this host may see trimmed packets, the server does not look for them",
        (false, true) => "the server sees trimmed packets, this host may not",
        (false, false) => "neither host sees trimmed packets",
    };
    let check = if wanted && !(allowed_here && seen_there) {
        Check::warning(name, finding).advice(
            "Losses are then inferred. Give the program CAP_NET_RAW (setcap cap_net_raw+ep, or AmbientCapabilities \
             of its unit), and both sides --fabric trimming.",
        )
    } else if wanted {
        Check::ok(name, finding)
    } else {
        Check::ok(name, format!("{finding}; of use with --fabric trimming only"))
    };
    check.figure("allowed_here", allowed_here).figure("seen_there", seen_there)
}

/// Datagrams that are not marked, that could be, and that were.
pub fn of_ecn(plain: ClassEcho, capable: ClassEcho, marked: ClassEcho) -> Check {
    let name = "ECN";
    let arrived = |echo: ClassEcho| echo.there.is_some();
    let kept = |echo: ClassEcho, bits| {
        let kept = |class: Option<u8>| class.is_some_and(|class| class & 3 == bits);
        (kept(echo.there), kept(echo.back))
    };
    let check = if arrived(plain) && !(arrived(capable) && arrived(marked)) {
        Check::failure(name, "datagrams with ECN bits do not arrive, those without do").advice(
            "A firewall on the path drops them: let both bits pass (RFC 3168). --fabric dedicated sends without.",
        )
    } else {
        match (kept(capable, 2), kept(marked, 3)) {
            ((true, true), (true, true)) => {
                Check::ok(name, "marks of congestion survive both ways")
            }
            ((there, back), (marked_there, marked_back)) => {
                let way = match (there && marked_there, back && marked_back) {
                    (false, false) => "both ways",
                    (false, true) => "on the way there",
                    _ => "on the way back",
                };
                Check::warning(name, format!("marks of congestion are changed {way}"))
                    .advice("Congestion is then seen by losses and delays alone.")
            }
        }
    };
    let class = |class: Option<u8>| class.map(|class| class & 3);
    check
        .figure("capable_there", class(capable.there))
        .figure("capable_back", class(capable.back))
        .figure("marked_there", class(marked.there))
        .figure("marked_back", class(marked.back))
}

pub fn of_dscp(echoes: &[ClassEcho], wanted: bool) -> Check {
    let name = "DSCP";
    let dscp =
        |class: Option<u8>| class.map_or("lost".to_owned(), |class| (class >> 2).to_string());
    let changed: Vec<String> = echoes
        .iter()
        .filter(|e| {
            [e.there, e.back].iter().any(|class| class.map(|c| c >> 2) != Some(e.sent >> 2))
        })
        .map(|e| format!("{} becomes {} there, {} back", e.sent >> 2, dscp(e.there), dscp(e.back)))
        .collect();
    let sent: Vec<String> = echoes.iter().map(|echo| (echo.sent >> 2).to_string()).collect();
    if changed.is_empty() {
        return Check::ok(name, format!("{} survive both ways", sent.join(", ")));
    }
    let is_cleared = |echo: &ClassEcho| {
        [echo.there, echo.back].iter().all(|class| class.is_some_and(|class| class >> 2 == 0))
    };
    let finding = match echoes.iter().all(is_cleared) {
        true => format!("{} become 0 both ways", sent.join(", ")),
        false => changed.join("; "),
    };
    if wanted {
        Check::warning(name, finding).advice(
            "Switches on the path do not keep priorities: have them trust DSCP on these ports, or choose others by \
             --dscp-symbols and --dscp-control.",
        )
    } else {
        Check::ok(name, format!("{finding}; of use with --fabric trimming only"))
    }
}

pub fn of_buffers(granted: usize, asked: usize) -> Check {
    // Linux grants twice what it allows, to count its own bookkeeping in.
    let name = "buffers";
    let finding = format!("a receive buffer of {}", bytes(granted as u64));
    let check = if granted < asked {
        Check::warning(name, format!("{finding}, {} wanted", bytes(asked as u64)))
            .advice(format!("sysctl -w net.core.rmem_max={asked} net.core.wmem_max={asked}"))
    } else {
        Check::ok(name, finding)
    };
    check.figure("bytes", granted).figure("bytes_wanted", asked)
}

pub fn of_transfer(report: &FetchReport) -> Check {
    let name = "transfer";
    let stats = report.replicas.first().and_then(|replica| replica.stats).unwrap_or_default();
    let (lost, loss) = (stats.lost, part(stats.lost, stats.granted));
    let moving = report.elapsed.saturating_sub(report.preparing + report.finishing);
    let (rate, size, time) = (report.transfer_rate(), bytes(report.size), seconds(moving));
    let finding =
        format!("{} ({size} in {time}), {} of the symbols lost", bit_rate(rate), percent(loss));
    let check = if loss >= LOSSY {
        Check::warning(name, finding).advice(
            "Some loss is how a shared path says that it is full. If the rate is far below the link's, the path loses \
             by itself: --congestion veno is made for that; --fabric dedicated where no other traffic uses the path.",
        )
    } else {
        Check::ok(name, finding)
    };
    check
        .figure("bits_per_second", rate)
        .figure("bytes", report.size)
        .figure("seconds", moving.as_secs_f64())
        .figure("symbols_lost", lost)
        .figure("symbols", stats.granted)
}

/// What became of the first datagram, for one that was not answered well; `icmp` is what the network reports.
pub fn of_trouble(error: &HostError, icmp: Option<&str>, tcp_answers: bool) -> Vec<Check> {
    let (port, keys) = ("port", "keys");
    match error.trouble {
        HostTrouble::PortClosed => {
            let told = "the host is there, and nobody listens at that port (ICMP)";
            let check = Check::failure(port, told);
            vec![check.advice(
                "Start `wellspring serve` there, or name the port that it prints: HOST:PORT.",
            )]
        }
        HostTrouble::Silent => {
            let told = icmp.map(|icmp| format!("; the network says: {icmp}")).unwrap_or_default();
            let check = Check::failure(port, format!("{}{told}", error.reason));
            vec![check.advice(match (tcp_answers, icmp.is_some()) {
                (true, _) => "TCP is answered at that port: a firewall lets TCP through and not UDP. Let UDP through, both ways.",
                (_, true) => "Packets do not get there: look at the routes, and at the firewall that sends this.",
                _ => "Does the host run, does `wellspring serve` of this version run there at this port, and does a firewall \
                      let UDP through, both ways?",
            })]
        }
        HostTrouble::Keys => {
            let keys = Check::failure(keys, error.reason.clone());
            vec![
                Check::ok(port, "answers"),
                keys.advice(
                    "Both hosts must trust each other's key: `wellspring key --help` says how, and `wellspring key show` \
                     shows whom a host trusts.",
                ),
            ]
        }
        _ => vec![Check::failure(port, format!("answers, but: {}", error.reason))],
    }
}

/// A time in the unit that suits it.
fn ms(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds >= 10.0 => format!("{seconds:.0} s"),
        seconds if seconds >= 1.0 => format!("{seconds:.2} s"),
        seconds => format!("{:.2} ms", seconds * 1e3),
    }
}

#[cfg(test)]
mod tests;
