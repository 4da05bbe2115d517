//! Time series and captures of a run: queues, rates, packets.

use crate::adapter::{Adapter, FrameOf};
use crate::driver::Driver;
use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::File;
use std::io::{BufWriter, IntoInnerError, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use wellspring_core::{Destination, Duration, Time};
use wellspring_sim::pcapng::{Packet, PcapWriter};
use wellspring_sim::topology::{EgressId, Graph, NodeId};
use wellspring_sim::{Simulator, TapPoint};
use wellspring_store::atomic_file::AtomicFile;

/// The first bytes of every capture.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// The most that samples may hold \[instants, and hosts and ports with values in them\]:
/// some 24 bytes each.
const MAX_SAMPLED: u64 = 20_000_000;

/// Packets to be written down: all that one host sends and receives.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The host.
    pub host: u32,
    /// The pcapng file.
    pub path: PathBuf,
}

/// What was seen at one instant.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sample {
    /// When \[s\].
    pub at: f64,
    /// (host, payload bytes received since the sample before), where there were any.
    pub received: Vec<(u32, u64)>,
    /// (port, data packets, data bytes, control packets) that wait at switch ports where any do.
    pub queues: Vec<(u32, u32, u64, u32)>,
}

/// Samples of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Series {
    /// By time.
    pub samples: Vec<Sample>,
    /// Switch ports watched, empty ones included.
    pub ports: u32,
}

impl Series {
    /// Mean and largest number of data packets that wait at a switch port.
    pub fn queue_packets(&self) -> (f64, u32) {
        let depths = || self.samples.iter().flat_map(|sample| sample.queues.iter().map(|q| q.1));
        let looks = self.samples.len() as f64 * f64::from(self.ports);
        let sum: u64 = depths().map(u64::from).sum();
        let mean = if looks > 0.0 { sum as f64 / looks } else { 0.0 };
        (mean, depths().max().unwrap_or(0))
    }

    /// Payload bits a second that a host received from one time to another, over the whole samples between them: what came
    /// after the last of these is in a later one.
    pub fn rate(&self, host: u32, from: f64, to: f64) -> f64 {
        let first = self.samples.partition_point(|sample| sample.at <= from);
        let within = &self.samples[first..];
        let within = &within[..within.partition_point(|sample| sample.at <= to)];
        let Some(last) = within.last() else { return 0.0 };
        // A sample holds what came since the one before.
        let start = first.checked_sub(1).map_or(0.0, |before| self.samples[before].at);
        let received = within.iter().flat_map(|sample| &sample.received);
        let bytes: u64 = received.filter(|entry| entry.0 == host).map(|entry| entry.1).sum();
        bytes as f64 * 8.0 / (last.at - start)
    }

    /// Writes `queues-NAME.csv.gz` and `rates-NAME.csv.gz`.
    ///
    /// # Errors
    /// Those of the files.
    pub fn write(&self, folder: &Path, name: &str) -> Result<()> {
        let [rates, queues] = series_files(folder, name);
        let (mut rates, mut queues) = (table(&rates)?, table(&queues)?);
        rates.write_record(["at_s", "host", "payload_bytes"])?;
        queues.write_record(["at_s", "port", "data_packets", "data_bytes", "control_packets"])?;
        for sample in &self.samples {
            let at = format!("{:.9}", sample.at);
            for (host, bytes) in &sample.received {
                rates.write_record([&at, &host.to_string(), &bytes.to_string()])?;
            }
            for (port, packets, bytes, control) in &sample.queues {
                let numbers = [u64::from(*port), u64::from(*packets), *bytes, u64::from(*control)];
                queues.write_field(&at)?;
                queues.write_record(numbers.map(|number| number.to_string()))?;
            }
        }
        [rates, queues].into_iter().try_for_each(end)
    }
}

/// Where rates and queues of a run are written.
pub(crate) fn series_files(folder: &Path, name: &str) -> [PathBuf; 2] {
    ["rates", "queues"].map(|what| folder.join(format!("{what}-{name}.csv.gz")))
}

/// A table that is compressed as it is written.
pub(crate) type Table = csv::Writer<GzEncoder<BufWriter<AtomicFile>>>;

pub(crate) fn table(path: &Path) -> Result<Table> {
    let file = BufWriter::new(begin(path)?);
    Ok(csv::Writer::from_writer(GzEncoder::new(file, Compression::default())))
}

/// Gives a table its name.
pub(crate) fn end(table: Table) -> Result<()> {
    let compressed = table.into_inner().map_err(|e| anyhow::anyhow!("{e}"))?;
    finish(compressed.finish()?.into_inner().map_err(IntoInnerError::into_error)?)
}

fn begin(path: &Path) -> Result<AtomicFile> {
    AtomicFile::output(path).with_context(|| path.display().to_string())
}

fn finish(file: AtomicFile) -> Result<()> {
    let path = file.path().to_owned();
    file.finish().with_context(|| path.display().to_string())
}

/// Watches one run.
pub(crate) struct Observer {
    series: Series,
    sampled: u64,
    received: Arc<Vec<AtomicU64>>,
    ports: Vec<EgressId>,
    capture: Option<SharedCapture>,
}

/// Taken out at the end.
type SharedCapture = Arc<Mutex<Option<PcapWriter<BufWriter<AtomicFile>>>>>;

impl Observer {
    /// Taps the simulator, if there is anything to be watched.
    pub fn new<A: Adapter + Send + 'static>(
        sim: &mut Simulator<A::Endpoint, Driver<A>>,
        graph: &Graph,
        sampled: bool,
        capture: Option<(&Capture, A)>,
    ) -> Result<Observer> {
        let received: Vec<_> = (0..graph.hosts()).map(|_| AtomicU64::new(0)).collect();
        let received = Arc::new(received);
        let switches = (graph.hosts()..graph.nodes()).map(NodeId);
        let ports: Vec<EgressId> =
            switches.flat_map(|node| sim.ports(node).collect::<Vec<_>>()).collect();
        let writer = match &capture {
            None => None,
            Some((capture, _)) => {
                let Capture { host, path } = capture;
                let hosts = graph.hosts();
                ensure!(*host < hosts, "no host {host} to capture: hosts are 0 to {}", hosts - 1);
                spare(path)?;
                let file = begin(path)?;
                Some(Arc::new(Mutex::new(Some(PcapWriter::new(BufWriter::new(file))?))))
            }
        };
        let series = Series { samples: Vec::new(), ports: ports.len() as u32 };
        let observer = Observer { series, sampled: 0, received, ports, capture: writer };
        if sampled || capture.is_some() {
            let received = observer.received.clone();
            let writer = observer.capture.clone();
            let host = capture.as_ref().map(|(capture, _)| capture.host);
            let adapter = capture.map(|(_, adapter)| adapter);
            sim.set_tap(move |now, point, frame| {
                if let TapPoint::Received(host) = point {
                    let payload = u64::from(frame.payload_len);
                    received[host.0 as usize].fetch_add(payload, Ordering::Relaxed);
                }
                let (TapPoint::Sent(at) | TapPoint::Received(at)) = point;
                if let (Some(writer), Some(adapter), true) = (&writer, &adapter, host == Some(at.0))
                {
                    write_frame(writer, adapter, now, frame);
                }
            });
        }
        Ok(observer)
    }

    /// Looks at all queues, and at what arrived since it looked last.
    pub fn sample<A: Adapter>(&mut self, sim: &mut Simulator<A::Endpoint, Driver<A>>) {
        let at = sim.now().as_secs_f64();
        let taken = self.received.iter().enumerate();
        let taken = taken.map(|(host, bytes)| (host as u32, bytes.swap(0, Ordering::Relaxed)));
        let received = taken.filter(|entry| entry.1 > 0).collect();
        let mut queues = Vec::new();
        for port in &self.ports {
            let (packets, bytes, control) = sim.queue_depth(*port);
            if packets > 0 || control > 0 {
                queues.push((port.0, packets, bytes, control));
            }
        }
        let sample = Sample { at, received, queues };
        // An instant alone takes as much as two entries.
        self.sampled += 2 + (sample.received.len() + sample.queues.len()) as u64;
        self.series.samples.push(sample);
    }

    /// Whether the samples taken up to now leave memory for more.
    ///
    /// # Errors
    /// They do not: with the interval that fits if the run lasts until `end`.
    pub fn check_size(&self, interval: Duration, end: Time) -> Result<()> {
        let now = self.series.samples.last().map_or(0.0, |sample| sample.at);
        let fits = interval.as_secs_f64() * (end.as_secs_f64() / now).max(1.0).ceil();
        ensure!(
            self.sampled <= MAX_SAMPLED,
            "run.sample = {interval} makes more than {MAX_SAMPLED} entries in {now} s: a run until \
             run.limit fits with an interval of {fits} s"
        );
        Ok(())
    }

    /// Ends the capture, and gives what was seen.
    pub fn finish(self) -> Result<Series> {
        if let Some(writer) = &self.capture
            && let Ok(mut writer) = writer.lock()
            && let Some(writer) = writer.take()
        {
            finish(writer.finish()?.into_inner().map_err(IntoInnerError::into_error)?)?;
        }
        Ok(self.series)
    }
}

/// A capture may take the place of another, but of nothing else.
fn spare(path: &Path) -> Result<()> {
    if path.is_file() {
        let mut start = Vec::new();
        File::open(path)?.take(PCAPNG.len() as u64).read_to_end(&mut start)?;
        let fits = start.is_empty() || start == PCAPNG;
        ensure!(fits, "{} is there and no capture: choose another name", path.display());
    }
    Ok(())
}

/// A failure to write shows when the capture is flushed at the end.
fn write_frame<A: Adapter, W: Write>(
    writer: &Mutex<Option<PcapWriter<W>>>,
    adapter: &A,
    now: Time,
    frame: &FrameOf<A>,
) {
    let destination = match frame.destination {
        Destination::Host(host) => PcapWriter::<W>::host_address(host.0),
        Destination::Group(group) => PcapWriter::<W>::group_address(group.0),
    };
    let packet = Packet {
        time: now,
        source: frame.source.0,
        destination,
        ecn: frame.ecn,
        transport: adapter.captured(frame),
        payload_len: frame.payload_len.into(),
    };
    if let Ok(mut writer) = writer.lock()
        && let Some(writer) = writer.as_mut()
    {
        let _ = writer.write(&packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_whole_samples_over_their_own_span() {
        let sample =
            |at: f64| Sample { at, received: vec![(3, 1_000), (4, 7)], queues: Vec::new() };
        let samples = [1.0, 2.0, 3.0, 4.0].map(sample).to_vec();
        let series = Series { samples, ports: 1 };
        for (from, to) in [(0.0, 4.0), (0.0, 3.9), (1.5, 3.5), (2.0, 2.999), (0.5, 1.0), (0.0, 9.0)]
        {
            let rate = series.rate(3, from, to);
            let expected = if (from, to) == (2.0, 2.999) { 0.0 } else { 8_000.0 };
            assert_eq!(rate, expected, "{from} to {to}");
        }
        assert_eq!(series.rate(5, 0.0, 4.0), 0.0);
    }
}
