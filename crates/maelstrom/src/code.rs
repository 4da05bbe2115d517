//! The codes that a send side may use.

use wellspring_codec::interleave::{
    BlockParameters, InterleaveError, Interleaver, MAX_LAYERS, Parameters, ReedSolomonSender,
    SlidingParameters, SlidingSender,
};

/// A kind of code.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Family {
    /// Combinations of the newest packets (RFC 8681).
    #[default]
    Sliding,
    /// Layered interleaving, as in the paper (§4.3).
    Layers,
    /// Reed-Solomon over blocks of packets with interleave, to which the paper compares (§3.2).
    ReedSolomon,
}

impl Family {
    /// A word for programs.
    pub fn name(self) -> &'static str {
        match self {
            Family::Sliding => "sliding",
            Family::Layers => "layers",
            Family::ReedSolomon => "reed-solomon",
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
    /// Reed-Solomon over blocks.
    Blocks(BlockParameters),
}

impl Code {
    /// Of which kind it is.
    pub fn family(&self) -> Family {
        match self {
            Code::Layers(_) => Family::Layers,
            Code::Sliding(_) => Family::Sliding,
            Code::Blocks(_) => Family::ReedSolomon,
        }
    }

    /// Repairs for each packet.
    pub fn overhead(&self) -> f64 {
        match self {
            Code::Layers(code) => code.overhead(),
            Code::Sliding(code) => code.parameters.overhead(),
            Code::Blocks(code) => code.overhead(),
        }
    }

    /// The longest burst that it is meant for \[packets\].
    pub fn burst(&self) -> u16 {
        match self {
            Code::Layers(code) => code.interleaves().iter().copied().max().unwrap_or(1),
            Code::Sliding(code) => code.burst,
            Code::Blocks(code) => code.interleave(),
        }
    }

    /// Packets for each repair of a layer, or of the window, or of a block.
    pub fn rate(&self) -> u8 {
        match self {
            Code::Layers(code) => code.rate(),
            Code::Sliding(code) => code.parameters.rate(),
            Code::Blocks(code) => code.rate(),
        }
    }

    /// Interleaves: one a layer, or of blocks; a window has none.
    pub fn interleaves(&self) -> Vec<u16> {
        match self {
            Code::Layers(code) => code.interleaves().to_vec(),
            Code::Sliding(_) => Vec::new(),
            Code::Blocks(code) => vec![code.interleave()],
        }
    }

    /// Whether repairs wait until no burst that is meant takes them with their packets.
    pub fn is_delayed(&self) -> bool {
        match self {
            Code::Layers(code) => code.delayed,
            Code::Sliding(_) => false,
            Code::Blocks(code) => code.delayed,
        }
    }

    /// Repairs that leave for so many packets.
    pub fn repairs(&self) -> usize {
        match self {
            Code::Layers(code) => code.interleaves().len(),
            Code::Sliding(_) => 1,
            Code::Blocks(code) => usize::from(code.repairs()),
        }
    }

    /// Packets in the XOR of layers whose repairs are as long as this code's: what the MTU plan reckons with.
    pub fn mtu_rate(&self) -> u8 {
        match self {
            // A block's repair also has the combined length, and may have padding.
            Code::Blocks(code) => code.rate() + 1,
            _ => self.rate(),
        }
    }

    /// How far back its repairs reach, and what is remembered of packets with them \[packets\].
    pub fn reach(&self) -> usize {
        match self {
            Code::Layers(code) => {
                let largest = code.interleaves().iter().copied().max().unwrap_or(1);
                code.reach() + 2 * usize::from(largest)
            }
            Code::Sliding(_) => usize::from(wellspring_codec::interleave::MAX_WINDOW),
            Code::Blocks(code) => code.reach() + 2 * usize::from(code.interleave()),
        }
    }
}

/// The send side of a code.
#[derive(Debug)]
pub(crate) enum Coder {
    Layers(Interleaver),
    Sliding(Box<SlidingSender>, SlidingCode),
    Blocks(ReedSolomonSender),
}

impl Coder {
    pub(crate) fn new(code: &Code, longest: usize) -> Result<Self, InterleaveError> {
        Ok(match code {
            Code::Layers(parameters) => Coder::Layers(Interleaver::new(parameters, longest)?),
            Code::Sliding(code) => {
                Coder::Sliding(Box::new(SlidingSender::new(&code.parameters, longest)?), *code)
            }
            Code::Blocks(parameters) => Coder::Blocks(ReedSolomonSender::new(parameters, longest)?),
        })
    }

    /// Packets taken so far.
    pub(crate) fn packets(&self) -> u64 {
        match self {
            Coder::Layers(interleaver) => interleaver.packets(),
            Coder::Sliding(sender, _) => sender.packets(),
            Coder::Blocks(sender) => sender.packets(),
        }
    }

    /// How many packets lie from one of a repair to the next, by layer.
    pub(crate) fn strides(&self) -> [u16; MAX_LAYERS] {
        match self {
            Coder::Layers(interleaver) => {
                let interleaves = interleaver.parameters().interleaves();
                std::array::from_fn(|layer| interleaves.get(layer).copied().unwrap_or(1))
            }
            Coder::Sliding(..) => [1; MAX_LAYERS],
            Coder::Blocks(sender) => [sender.parameters().interleave(); MAX_LAYERS],
        }
    }
}
