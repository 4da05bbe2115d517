//! `wellspring maelstrom bench`: speed of the engine alone, on frames from memory.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use wellspring_codec::kernels::prefetch;
use wellspring_console::exit::Failed;
use wellspring_console::output::{Stdout, table};
use wellspring_core::{RandomStream, Seed, Time};
use wellspring_maelstrom::{
    Batch, Code, Family, KEY_LEN, PresharedKey, ReceiveConfig, ReceiveSide, SendConfig, SendSide,
    SessionId,
};

use super::code_args::CodeArgs;
use super::processor_time::processor_time;

/// Measure the engine alone, on one core, with packets from memory and without a network.
///
/// The send side names each packet, adds it to one bin per layer (or to a block), and authenticates the repairs. The
/// receive side names and stores the packets, verifies the repairs and recovers missing packets. Each
/// round uses new packets in the same memory. Times are processor times, so other processes do not
/// count. The recovered packets are compared with the lost ones.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  wellspring maelstrom bench
  wellspring maelstrom bench --size 1500 --rate 8,5 --interleave 1,11,19,29,41 --json")]
pub struct BenchArgs {
    /// Bytes of a packet; several sizes separated by commas.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "1500,200",
          value_parser = clap::value_parser!(u16).range(64..=9_000))]
    size: Vec<u16>,
    /// Packets in memory, as in a capture ring; a small number fits in the processor's cache.
    #[arg(long, value_name = "N", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(16..=100_000))]
    frames: u32,
    /// Packets that the receive side stores [default: 1024, or as many as the interleaves require].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
    packets: Option<u32>,
    #[command(flatten)]
    code: CodeArgs,
    /// Share of the packets lost before the receive side, 0 to 0.9.
    #[arg(long, value_name = "P", default_value_t = 0.01)]
    loss: f64,
    /// Time spent on each size, in seconds.
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    seconds: f64,
    /// Seed of the losses.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Measure instead what it costs to drop datagrams of each size that strangers forge, in the best of the rounds.
    #[arg(long, conflicts_with_all = ["frames", "packets", "loss", "code", "rate", "interleave", "delayed"])]
    forged: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Nanoseconds a packet, of all rounds.
struct Times {
    median: f64,
    best: f64,
}

impl Times {
    fn of(mut rounds: Vec<f64>) -> Self {
        rounds.sort_by(f64::total_cmp);
        Times { median: rounds[rounds.len() / 2], best: rounds[0] }
    }

    /// Bits of packets a second, in units of 10^9.
    fn gbit_per_second(&self, size: u16) -> f64 {
        f64::from(size) * 8.0 / self.median
    }
}

/// One size's figures.
struct Row {
    size: u16,
    send: Times,
    receive: Times,
    lost: u64,
    recovered: u64,
    repairs: u64,
    packets: u64,
}

pub fn run(args: &BenchArgs) -> Result<(), Failed> {
    if args.forged {
        return super::forged::run(&args.size, args.seconds / 10.0, args.json);
    }
    let code = args.code.code(args.code.family().unwrap_or(Family::Layers))?;
    let rows: Vec<Row> =
        args.size.iter().map(|&size| measure(args, &code, size)).collect::<Result<_, _>>()?;
    if args.json {
        let rows: Vec<_> = rows.iter().map(|row| to_json(row, args, &code)).collect();
        writeln!(Stdout, "{}", serde_json::Value::from(rows))?;
        return Ok(());
    }
    let head = ["bytes", "side", "Gbit/s", "ns/packet", "best", "Mpackets/s", "of the lost"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for row in &rows {
        let back = format!("{} of {}", row.recovered, row.lost);
        for (side, times, back) in
            [("send", &row.send, String::new()), ("receive", &row.receive, back)]
        {
            lines.push(vec![
                row.size.to_string(),
                side.to_owned(),
                format!("{:.1}", times.gbit_per_second(row.size)),
                format!("{:.0}", times.median),
                format!("{:.0}", times.best),
                format!("{:.2}", 1e3 / times.median),
                back,
            ]);
        }
    }
    Ok(write!(Stdout, "{}", table(&lines))?)
}

fn to_json(row: &Row, args: &BenchArgs, code: &Code) -> serde_json::Value {
    let side = |times: &Times| {
        json!({
            "gbit_per_second": times.gbit_per_second(row.size),
            "ns_per_packet": times.median,
            "ns_per_packet_best": times.best,
            "packets_per_second": 1e9 / times.median,
        })
    };
    json!({
        "bytes": row.size, "code": code.family().name(), "rate": code.rate(),
        "interleaves": code.interleaves(), "delayed": code.is_delayed(),
        "loss": args.loss, "seed": args.seed, "frames": args.frames,
        "send": side(&row.send), "receive": side(&row.receive),
        "packets": row.packets, "repairs": row.repairs,
        "lost": row.lost, "recovered": row.recovered,
    })
}

/// Between packets, so that recovered ones are held as long as they would be on a link.
const SPACING: wellspring_core::Duration = wellspring_core::Duration::from_nanos(250);

fn measure(args: &BenchArgs, code: &Code, size: u16) -> Result<Row, Failed> {
    let failed = |e: wellspring_codec::interleave::InterleaveError| Failed::other(e.to_string());
    let key = PresharedKey::new([1; KEY_LEN]);
    let session = |start| SessionId { start, random: 0 };
    let longest = usize::from(size);
    let config = SendConfig {
        code: code.clone(),
        adaptive: None,
        longest,
        flush_after: wellspring_core::Duration::from_millis(5),
        repair_within: None,
    };
    let mut sender = SendSide::new(&key, session(1), &config).map_err(failed)?;
    let packets = ReceiveConfig::default().packets.max(2 * code.reach());
    let packets = args.packets.map_or(packets, |packets| packets as usize);
    let count = args.frames as usize;
    // As `up` has it by default.
    let config = ReceiveConfig { packets, longest, renew_stamps: true, ..ReceiveConfig::default() };
    let receiver = ReceiveSide::new(&key, session(2), &config).map_err(failed)?;
    let mut receiver = receiver.believing(session(1));
    let mut losses = Seed(args.seed).stream("losses");
    let mut frames = frames(size, count);
    let mut number = 0;
    let (mut send, mut receive, mut lost) = (Vec::new(), Vec::new(), 0);
    let (mut repairs, mut recovered) = (Batch::new(), Batch::new());
    let mut now = Time::ZERO;
    let mut spent = Duration::ZERO;
    while spent.as_secs_f64() < args.seconds || send.len() < 10 {
        renew(&mut frames, size, &mut number);
        repairs.clear();
        let mut behind = Vec::with_capacity(count);
        let begin = processor_time();
        let mut rest = frames.as_mut_slice();
        while let Some(frame) = next(&mut rest, longest) {
            let _ = sender.observe(Time::ZERO, frame, &mut repairs);
            behind.push(repairs.len());
        }
        let sent = processor_time() - begin;
        let kept: Vec<bool> = (0..count).map(|_| !happens(&mut losses, args.loss)).collect();
        lost += kept.iter().filter(|kept| !**kept).count() as u64;
        let mut repairs = repairs.iter();
        let begin = processor_time();
        let mut taken = 0;
        let mut rest = frames.as_mut_slice();
        for (kept, &upto) in kept.iter().zip(&behind) {
            let Some(frame) = next(&mut rest, longest) else { break };
            now = now + SPACING;
            if *kept {
                let _ = receiver.observe(now, frame, &mut recovered);
            }
            for repair in repairs.by_ref().take(upto - taken) {
                receiver.handle_datagram(now, repair, &mut recovered);
            }
            taken = upto;
            recovered.clear();
        }
        let received = processor_time() - begin;
        spent += sent + received;
        // The first rounds touch memory for the first time.
        if number > 8_192 {
            send.push(sent.as_nanos() as f64 / count as f64);
            receive.push(received.as_nanos() as f64 / count as f64);
        }
    }
    let account = receiver.account();
    if account.garbled > 0 || receiver.counters().dropped.iter().any(|&dropped| dropped > 0) {
        return Err(Failed::other("the receive side refused what the send side made"));
    }
    Ok(Row {
        size,
        send: Times::of(send),
        receive: Times::of(receive),
        lost,
        recovered: account.recovered_total(),
        repairs: sender.counters().repairs,
        packets: sender.counters().packets,
    })
}

/// IPv4 packets one behind the other, as hosts send them today: DF, and an identification of 0.
fn frames(size: u16, count: usize) -> Vec<u8> {
    let mut random = Seed(0).stream("frames");
    let mut frames: Vec<u8> =
        (0..count * usize::from(size)).map(|_| random.next_u64() as u8).collect();
    for frame in frames.chunks_exact_mut(usize::from(size)) {
        frame[..12].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame[2..4].copy_from_slice(&size.to_be_bytes());
        // A flow of TCP with time stamps.
        frame[12..24].fill(1);
        frame[32..44].copy_from_slice(&[0x80, 0x10, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10]);
    }
    frames
}

/// The next of the frames; the one behind it is asked for, as the appliance's ring does.
fn next<'a>(rest: &mut &'a mut [u8], size: usize) -> Option<&'a mut [u8]> {
    let (frame, after) = std::mem::take(rest).split_at_mut_checked(size)?;
    prefetch(&after[..after.len().min(size)]);
    *rest = after;
    Some(frame)
}

/// Makes them packets that were never seen before.
fn renew(frames: &mut [u8], size: u16, number: &mut u64) {
    for frame in frames.chunks_exact_mut(usize::from(size)) {
        *number += 1;
        frame[24..28].copy_from_slice(&(*number as u32).wrapping_mul(1_448).to_be_bytes());
        frame[44..52].copy_from_slice(&number.to_be_bytes());
    }
}

fn happens(random: &mut RandomStream, probability: f64) -> bool {
    random.unit() < probability
}
