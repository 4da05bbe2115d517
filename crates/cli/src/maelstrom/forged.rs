//! Cost of datagrams that strangers forge, by how far they get.

use std::time::Duration;

use serde_json::json;
use wellspring_console::exit::Failed;
use wellspring_console::output::{Stdout, table};
use wellspring_core::Time;
use wellspring_maelstrom::{
    Arrival, Batch, DropReason, KEY_LEN, PresharedKey, ReceiveConfig, ReceiveSide, SessionId,
    VERSION, seal_datagram,
};

use super::processor_time::processor_time;

/// Datagrams between two looks at the clock.
const ROUND: u32 = 1_000;
/// The peer's session.
const PEER: u64 = 5;
/// A header's bytes before the session: version and kind, a probe.
const HEAD: [u8; 12] = [VERSION, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// Bytes of a datagram beside those that follow its header.
const AROUND: usize = 52;

/// What it costs to drop a datagram.
struct Row {
    what: &'static str,
    encrypts: bool,
    size: u16,
    ns: f64,
}

/// Measures datagrams of each size and prints what one costs.
pub(super) fn run(sizes: &[u16], seconds: f64, as_json: bool) -> Result<(), Failed> {
    let clear = PresharedKey::new([1; KEY_LEN]);
    let mut rows = Vec::new();
    for &size in sizes {
        for key in [clear.clone(), clear.encrypting()] {
            for (what, reason, datagram) in forged(&key, usize::from(size)) {
                let ns = measure(&key, &datagram, reason, seconds)?;
                rows.push(Row { what, encrypts: key.encrypts(), size, ns });
            }
        }
    }
    if as_json {
        let rows = rows.iter().map(|row| {
            json!({ "forged": row.what, "encrypted": row.encrypts, "bytes": row.size, "ns": row.ns })
        });
        writeln!(Stdout, "{}", serde_json::Value::from_iter(rows))?;
        return Ok(());
    }
    let head = ["forged datagram", "bytes", "keys", "ns", "Gbit/s a core"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|row| {
        vec![
            row.what.to_owned(),
            row.size.to_string(),
            if row.encrypts { "encrypting" } else { "authenticating" }.to_owned(),
            format!("{:.0}", row.ns),
            format!("{:.1}", f64::from(row.size) * 8.0 / row.ns),
        ]
    }));
    Ok(write!(Stdout, "{}", table(&lines))?)
}

/// Datagrams of that length that a stranger could send, and why each is dropped.
fn forged(key: &PresharedKey, size: usize) -> [(&'static str, DropReason, Vec<u8>); 5] {
    let stranger = PresharedKey::new([2; KEY_LEN]);
    let of = |key: &PresharedKey, session: u64, number: u64| {
        let mut datagram = HEAD.to_vec();
        let session = SessionId { start: session, random: 0 };
        let body = vec![0; size.saturating_sub(AROUND)];
        seal_datagram(key, session, number, &mut datagram, &body);
        datagram
    };
    [
        ("no appliance's", DropReason::Foreign, vec![9; size]),
        ("played again", DropReason::Replayed, of(key, PEER, 0)),
        ("of an old session", DropReason::OldSession, of(&stranger, PEER - 1, 0)),
        ("of the peer's session", DropReason::Forged, of(&stranger, PEER, 1)),
        ("of a new session", DropReason::Forged, of(&stranger, PEER + 1, 0)),
    ]
}

/// Processor time of an appliance's receive side for one such datagram \[ns\].
fn measure(
    key: &PresharedKey,
    datagram: &[u8],
    reason: DropReason,
    seconds: f64,
) -> Result<f64, Failed> {
    let failed = |text: String| Failed::other(text);
    let own = SessionId { start: 1, random: 0 };
    let peer = SessionId { start: PEER, random: 0 };
    let receiver = ReceiveSide::new(key, own, &ReceiveConfig::default())
        .map_err(|error| failed(error.to_string()))?;
    let mut receiver = receiver.believing(peer);
    let mut first = HEAD.to_vec();
    seal_datagram(key, peer, 0, &mut first, &[]);
    let mut out = Batch::new();
    if receiver.handle_datagram(Time::ZERO, &first, &mut out) != Arrival::Probe {
        return Err(failed("the receive side refused what its peer said".into()));
    }
    let (mut spent, mut best) = (Duration::ZERO, f64::INFINITY);
    while spent.as_secs_f64() < seconds {
        let begin = processor_time();
        for _ in 0..ROUND {
            let arrival = receiver.handle_datagram(Time::ZERO, datagram, &mut out);
            if arrival != Arrival::Dropped(reason) {
                return Err(failed(format!("{arrival:?} instead of {reason:?}")));
            }
        }
        let round = processor_time() - begin;
        spent += round;
        best = best.min(round.as_nanos() as f64 / f64::from(ROUND));
    }
    Ok(best)
}
