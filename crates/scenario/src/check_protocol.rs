//! Validation of protocols.

use wellspring_codec::lt::RobustSoliton;
use wellspring_core::Duration;

use super::bounds::{Check, ScenarioError, must, span};
use super::{Beside, CongestionKind, FabricKind, Protocol, ProtocolName, Tcp};

impl Beside {
    pub(super) fn check(&self) -> Check {
        let Beside { share, protocol } = self;
        let part = *share > 0.0 && *share < 1.0;
        must(part, "beside.share", share, "above 0 and below 1")?;
        let name = protocol.name;
        let tcp = "tcp-newreno, dctcp or pias";
        must(name.is_tcp(), "beside.protocol.name", &name.as_str(), tcp)?;
        let within = |error: ScenarioError| ScenarioError {
            key: format!("beside.{}", error.key).into(),
            ..error
        };
        protocol.check().map_err(within)
    }
}

impl Protocol {
    pub(super) fn check(&self) -> Check {
        let protocol = self;
        for (key, window) in [
            ("protocol.window", protocol.window),
            ("protocol.window_per_sender", protocol.window_per_sender),
        ] {
            // A byte of SCDP's options.
            must((1..=255).contains(&window), key, &window, "between 1 and 255")?;
        }
        must(
            (33..=200).contains(&protocol.header),
            "protocol.header",
            &protocol.header,
            "between 33 and 200 bytes",
        )?;
        must(
            protocol.packet > u16::from(protocol.headers()),
            "protocol.packet",
            &protocol.packet,
            "more than protocol.header, and with protocol.keys more than 32 bytes beyond it",
        )?;
        must(
            !(protocol.keys && protocol.name.is_tcp()),
            "protocol.keys",
            &protocol.keys,
            "false for TCP, which has none here",
        )?;
        must(
            (1..=56_403).contains(&protocol.block_symbols),
            "protocol.block_symbols",
            &protocol.block_symbols,
            "between 1 and 56,403",
        )?;
        must(protocol.overhead <= 64, "protocol.overhead", &protocol.overhead, "at most 64")?;
        must(protocol.burst > 0, "protocol.burst", &protocol.burst, "1 or more")?;
        if let Some(stragglers) = protocol.stragglers {
            span("protocol.stragglers.silent_for", stragglers.silent_for)?;
            span("protocol.stragglers.patience", stragglers.patience)?;
            span("protocol.stragglers.judge_over", stragglers.judge_over)?;
            must(
                stragglers.judge_over.0 > Duration::ZERO,
                "protocol.stragglers.judge_over",
                &stragglers.judge_over,
                "above 0",
            )?;
            span("protocol.stragglers.unheard_for", stragglers.unheard_for)?;
        }
        must(
            protocol.thresholds.is_sorted() && protocol.thresholds.len() <= 7,
            "protocol.thresholds",
            &format!("{:?}", protocol.thresholds),
            "at most 7 sizes in ascending order",
        )?;
        let lttp = &protocol.lttp;
        let (overhead, parameters) = (lttp.code_overhead, (lttp.c, lttp.delta));
        must(
            (0.0..=1_000.0).contains(&overhead),
            "protocol.lttp.code_overhead",
            &overhead,
            "between 0 and 1,000",
        )?;
        // 4,096 is the most that the codec's tables of the distribution hold.
        let k = protocol.block_symbols.min(4_096);
        must(
            RobustSoliton::new(k, lttp.c, lttp.delta).is_ok(),
            "protocol.lttp.c or protocol.lttp.delta",
            &format!("{parameters:?}"),
            "such that there is a robust soliton distribution",
        )?;
        let ascending = protocol.decode_curve.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let finite =
            protocol.decode_curve.iter().all(|(x, y)| x.is_finite() && (0.0..1e9).contains(y));
        must(
            ascending && finite,
            "protocol.decode_curve",
            &format!("{:?}", protocol.decode_curve),
            "points of ascending symbols, and microseconds from 0 to 10^9",
        )?;
        must(
            protocol.min_timeout.0 > Duration::ZERO,
            "protocol.min_timeout",
            &protocol.min_timeout,
            "above 0",
        )?;
        span("protocol.min_timeout", protocol.min_timeout)?;
        must(
            protocol.congestion == CongestionKind::default()
                || protocol.fabric == FabricKind::Shared,
            "protocol.congestion",
            &protocol.congestion.algorithm(),
            "left out unless `fabric` is shared: the window is fixed",
        )?;
        protocol.tcp.check()
    }

    /// Whether it can share its switches with TCP, for which they drop.
    pub(super) fn check_beside_tcp(&self) -> Check {
        let is_scdp = matches!(self.name, ProtocolName::Scdp | ProtocolName::Polyraptor);
        let (fits, got) = match self.fabric {
            FabricKind::Shared => (true, "shared"),
            FabricKind::Trimming => (!is_scdp, "trimming"),
            FabricKind::Dedicated => (!is_scdp, "dedicated"),
        };
        let expected = "shared with a TCP beside it: switches drop then, and are not SCDP's alone";
        must(fits, "protocol.fabric", &got, expected)
    }
}

impl Tcp {
    pub(super) fn check(&self) -> Check {
        if let Some(window) = self.initial_window {
            let key = "protocol.tcp.initial_window";
            must((1..=1_000).contains(&window), key, &window, "between 1 and 1,000")?;
        }
        let window = self.receive_window.0;
        let key = "protocol.tcp.receive_window";
        must((1_000..=1 << 30).contains(&window), key, &window, "between 1 KB and 1 GiB")?;
        for (key, timeout) in [
            ("protocol.tcp.min_timeout", self.min_timeout),
            ("protocol.tcp.initial_timeout", self.initial_timeout),
        ] {
            must(timeout.0 > Duration::ZERO, key, &timeout, "above 0")?;
            let longest = Duration::from_secs(60);
            must(timeout.0 <= longest, key, &timeout, "at most 60 seconds")?;
        }
        if let Some(delay) = self.delayed_ack {
            // RFC 5681 §4.2.
            let most = Duration::from_millis(500);
            must(delay.0 <= most, "protocol.tcp.delayed_ack", &delay, "at most 500 ms")?;
        }
        let gain = self.gain > 0.0 && self.gain <= 1.0;
        must(gain, "protocol.tcp.gain", &self.gain, "above 0 and at most 1")?;
        let key = "protocol.tcp.min_window";
        must((1..=100).contains(&self.min_window), key, &self.min_window, "between 1 and 100")
    }
}
