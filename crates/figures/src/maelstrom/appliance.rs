//! §4.6 and §4.7: throughput, cost and memory of an appliance.

use anyhow::Result;
use serde::Deserialize;

use crate::Lab;
use crate::traffic::typed;

/// The engine on packets of one size.
#[derive(Deserialize)]
struct Engine {
    bytes: u32,
    send: Side,
    receive: Side,
}

#[derive(Deserialize)]
struct Side {
    gbit_per_second: f64,
    packets_per_second: f64,
}

/// What a pair carried; of the row without one, the costs are missing.
#[derive(Deserialize)]
struct Carried {
    cc: String,
    mbps: f64,
    /// TCP's segments sent again.
    retransmits: i64,
    /// TCP's segments that were sent and did not arrive, both ways.
    lost: i64,
    /// At the senders' site, and at the receivers'.
    aa: Option<Cost>,
    ab: Option<Cost>,
}

#[derive(Deserialize)]
struct Cost {
    #[serde(rename = "cpu_s_per_GB")]
    cpu_s_per_gb: f64,
    /// Resident, without what is the program's file \[MB\].
    #[serde(rename = "own_MB")]
    own_mb: f64,
    /// Where the kernel hands over what it forwards \[MB\].
    #[serde(rename = "ring_MB")]
    ring_mb: f64,
    unseen: u64,
}

/// What the emulated link did in one direction.
#[derive(Deserialize)]
struct Link {
    /// Dropped because it had to wait for a core.
    unwanted: i64,
}

/// Round trips, nothing lost.
#[derive(Deserialize)]
struct Latency {
    code: String,
    rtt_p50_us: f64,
}

/// §4.6: the engine alone, the pair on traffic, and the latency it adds.
pub fn section_4_6(lab: &mut Lab) -> Result<()> {
    let Some(traffic) = lab.traffic("capacity of the engine and of a pair") else { return Ok(()) };
    let seconds = if lab.quick() { 1 } else { 3 };
    for row in typed::<Engine>(traffic.engine(&format!("--seconds {seconds}"))?)? {
        for (name, side) in [("send", &row.send), ("receive", &row.receive)] {
            let what = format!("engine, one core, {name} side, packets of {} bytes", row.bytes);
            if row.bytes == 1_500 {
                let range = 30.0..=f64::INFINITY;
                lab.number(&format!("{what} [Gbit/s]"), "1 in 2008", side.gbit_per_second, range);
            } else {
                let ours = format!("{:.1}", side.packets_per_second / 1e6);
                lab.note(&format!("{what} [M packets/s]"), "not in the paper", ours);
            }
        }
    }
    let seconds = if lab.quick() { 5 } else { 10 };
    let arguments = format!("capacity --cc bbr,cubic --delay 0 --streams 2 --seconds {seconds}");
    for row in carried(&traffic.long_link(&arguments, 4)?)? {
        let Some((sender, receiver)) = row.aa.as_ref().zip(row.ab.as_ref()) else {
            let ours = format!("{:.0}, {}", row.mbps, row.retransmits);
            lab.note(&format!("{}, no appliances [Mbit/s], segments sent again", row.cc), "", ours);
            continue;
        };
        let what = format!("a pair at (8,3), {}, all on this machine [Mbit/s]", row.cc);
        lab.number(&what, "about 1,000", row.mbps, 1_000.0..=f64::INFINITY);
        let unseen = sender.unseen + receiver.unseen;
        lab.note(
            &format!("packets that passed on unseen, unprotected; segments sent again, {}", row.cc),
            "not in the paper",
            format!("{unseen}, {}", row.retransmits),
        );
        let ours = format!("{:.2} and {:.2}", sender.cpu_s_per_gb, receiver.cpu_s_per_gb);
        let what = format!("processor time, sender's and receiver's site, {} [s/GB]", row.cc);
        lab.note(&what, "not in the paper", ours);
    }
    let arguments = format!(
        "capacity --load 1.2G --cc bbr --delay 0 --streams 2 --code 8,3:1,20,40 --seconds {seconds}"
    );
    lossless(lab, &traffic.long_link(&arguments, 1)?)?;
    let rounds = if lab.quick() { 1 } else { 3 };
    let rows = traffic.long_link(&format!("latency --rounds {rounds}"), 2 * rounds)?;
    let rows = typed::<Latency>(rows)?;
    let best = |with: bool| {
        let of = rows.iter().filter(|row| (row.code != "none") == with).map(|row| row.rtt_p50_us);
        of.fold(f64::INFINITY, f64::min)
    };
    let added = (best(true) - best(false)) / 2.0;
    let what = "latency that a pair adds, one way, median of the best round with and without [us]";
    lab.goal(what, added, f64::NEG_INFINITY..=100.0);
    Ok(())
}

/// A load that the machine can carry: nothing is lost by a pair, nor unseen.
fn lossless(lab: &mut Lab, rows: &[serde_json::Value]) -> Result<()> {
    let links = rows.iter().filter(|row| row.get("unwanted").is_some()).cloned().collect();
    let dropped = typed::<Link>(links)?.iter().map(|link| link.unwanted).sum::<i64>();
    for row in carried(rows)? {
        let Some((sender, receiver)) = row.aa.as_ref().zip(row.ab.as_ref()) else { continue };
        let what = format!("a pair at a load of 1,200, {} [Mbit/s]", row.cc);
        lab.number(&what, "about 1,000", row.mbps, 1_000.0..=f64::INFINITY);
        let unseen = (sender.unseen + receiver.unseen) as f64;
        let what = "packets that pass on unseen, unprotected, at that load";
        lab.goal(what, unseen, 0.0..=0.0);
        let what = "TCP segments lost between the hosts at that load";
        lab.goal(what, row.lost as f64, 0.0..=dropped.max(0) as f64);
        let what = "frames that the emulated link dropped, having waited for a core";
        lab.note(what, "", dropped.to_string());
    }
    Ok(())
}

/// §4.7: what an appliance holds at the paper's settings, while it carries traffic.
pub fn section_4_7(lab: &mut Lab) -> Result<()> {
    let Some(traffic) = lab.traffic("memory of an appliance") else { return Ok(()) };
    let seconds = if lab.scale.quick { 5 } else { 10 };
    let arguments =
        format!("capacity --cc bbr --delay 0 --streams 2 --code 8,3:1,20,40 --seconds {seconds}");
    for row in carried(&traffic.long_link(&arguments, 1)?)? {
        for (name, cost) in [("senders'", &row.aa), ("receivers'", &row.ab)] {
            let Some(cost) = cost else { continue };
            let what = format!("memory of the appliance at the {name} site [MB]");
            lab.number(&what, "about 10 a proxy", cost.own_mb, 0.0..=10.0);
            let what = format!("beside it, the ring it shares with the kernel, {name} site [MB]");
            lab.note(&what, "within a kernel module", format!("{:.1}", cost.ring_mb));
        }
    }
    Ok(())
}

/// Rows of a pair; what follows them is the link's account.
fn carried(rows: &[serde_json::Value]) -> Result<Vec<Carried>> {
    typed(rows.iter().filter(|row| row.get("code").is_some()).cloned().collect())
}
