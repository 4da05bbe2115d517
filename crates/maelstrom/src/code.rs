//! The codes that a send side may use.

use wellspring_codec::interleave::{
    InterleaveError, Interleaver, Parameters, SlidingParameters, SlidingSender,
};

/// A kind of code.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Family {
    /// Combinations of the newest packets (RFC 8681).
    #[default]
    Sliding,
    /// Layered interleaving, as in the paper (§4.3).
    Layers,
}

impl Family {
    /// A word for programs.
    pub fn name(self) -> &'static str {
        match self {
            Family::Sliding => "sliding",
            Family::Layers => "layers",
        }
    }
}

/// A sliding window, and what it does for flows of low rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlidingCode {
    /// Rate and window.
    pub parameters: SlidingParameters,
    /// As many repairs as this follow soon however few packets there are, but not more than one for each: bursts of so
    /// many are protected against at every rate \[packets\].
    pub burst: u16,
}

/// How packets are mixed into repairs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Code {
    /// Layered interleaving.
    Layers(Parameters),
    /// A sliding window.
    Sliding(SlidingCode),
}

impl Code {
    /// Of which kind it is.
    pub fn family(&self) -> Family {
        match self {
            Code::Layers(_) => Family::Layers,
            Code::Sliding(_) => Family::Sliding,
        }
    }

    /// Repairs for each packet.
    pub fn overhead(&self) -> f64 {
        match self {
            Code::Layers(code) => code.overhead(),
            Code::Sliding(code) => code.parameters.overhead(),
        }
    }

    /// The longest burst that it is meant for \[packets\].
    pub fn burst(&self) -> u16 {
        match self {
            Code::Layers(code) => code.interleaves().iter().copied().max().unwrap_or(1),
            Code::Sliding(code) => code.burst,
        }
    }

    /// Packets for each repair of a layer, or of the window.
    pub fn rate(&self) -> u8 {
        match self {
            Code::Layers(code) => code.rate(),
            Code::Sliding(code) => code.parameters.rate(),
        }
    }

    /// How far back its repairs reach, and what is remembered of packets with them \[packets\].
    pub(crate) fn reach(&self) -> usize {
        match self {
            Code::Layers(code) => {
                let largest = code.interleaves().iter().copied().max().unwrap_or(1);
                code.reach() + 2 * usize::from(largest)
            }
            Code::Sliding(_) => usize::from(wellspring_codec::interleave::MAX_WINDOW),
        }
    }
}

/// The send side of a code.
#[derive(Debug)]
pub(crate) enum Coder {
    Layers(Interleaver),
    Sliding(Box<SlidingSender>, SlidingCode),
}

impl Coder {
    pub(crate) fn new(code: &Code, longest: usize) -> Result<Self, InterleaveError> {
        Ok(match code {
            Code::Layers(parameters) => Coder::Layers(Interleaver::new(parameters, longest)?),
            Code::Sliding(code) => {
                Coder::Sliding(Box::new(SlidingSender::new(&code.parameters, longest)?), *code)
            }
        })
    }

    /// Packets taken so far.
    pub(crate) fn packets(&self) -> u64 {
        match self {
            Coder::Layers(interleaver) => interleaver.packets(),
            Coder::Sliding(sender, _) => sender.packets(),
        }
    }
}
