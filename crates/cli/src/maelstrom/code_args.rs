//! Arguments of Maelstrom's code: rate, interleaves, delay.

use clap::Args;
use wellspring_codec::interleave::{BlockParameters, Parameters};
use wellspring_console::exit::Failed;
use wellspring_maelstrom::{Code, Family};

/// `8,3`: packets in an XOR, and layers.
fn parse_rate(text: &str) -> Result<(u8, usize), String> {
    let parts = text.split_once(',').map(|(r, c)| (r.trim().parse(), c.trim().parse()));
    match parts {
        Some((Ok(r), Ok(c))) => Ok((r, c)),
        _ => Err("write packets in an XOR and layers, such as 8,3".into()),
    }
}

/// `1,20,40`: one interleave a layer.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Interleaves(Vec<u16>);

fn parse_interleaves(text: &str) -> Result<Interleaves, String> {
    let numbers: Result<Vec<u16>, _> = text.split(',').map(|i| i.trim().parse()).collect();
    numbers.map(Interleaves).map_err(|_| "write an interleave a layer, such as 1,20,40".into())
}

/// Codes by name.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum, Debug)]
enum CodeName {
    /// Each repair is a combination of the newest packets (RFC 8681): the most for the least overhead. It adapts.
    Sliding,
    /// XORs in layers of interleaves, as in the paper: the least work.
    Layers,
    /// Reed-Solomon over blocks of packets: any r of a block's packets and repairs give it.
    ReedSolomon,
}

impl CodeName {
    fn family(self) -> Family {
        match self {
            CodeName::Sliding => Family::Sliding,
            CodeName::Layers => Family::Layers,
            CodeName::ReedSolomon => Family::ReedSolomon,
        }
    }
}

/// How packets are mixed into repairs.
#[derive(Args, Clone, Debug)]
pub(super) struct CodeArgs {
    /// Which code [default: sliding where it adapts, and layers where it does not].
    #[arg(long, value_enum)]
    code: Option<CodeName>,
    /// Packets in an XOR, r, and layers, c; or packets of a Reed-Solomon block and its repairs: c repairs leave for
    /// every r packets [default of codes that do not adapt: 8,3].
    #[arg(long, value_name = "R,C", value_parser = parse_rate)]
    rate: Option<(u8, usize)>,
    /// One interleave per layer, preferably without common divisors; bursts up to the largest are
    /// recovered [default of layers that do not adapt: 1,20,40]. Of Reed-Solomon one: blocks that are open at a
    /// time [default of those that do not adapt: 20].
    #[arg(long, value_name = "I,I,...", value_parser = parse_interleaves)]
    interleave: Option<Interleaves>,
    /// Delay each repair until its bin is used again. Recovery is slower, but no burst shorter than
    /// the interleave loses both a repair and its last packet.
    #[arg(long)]
    delayed: bool,
}

impl CodeArgs {
    /// The kind of code that was asked for.
    pub(super) fn family(&self) -> Option<Family> {
        self.code.map(CodeName::family)
    }

    /// Whether a code that stays as it is was asked for.
    pub(super) fn is_given(&self) -> bool {
        self.rate.is_some() || self.interleave.is_some() || self.delayed
    }

    /// A code of that kind that stays as it is: the paper's, or Reed-Solomon as near to it as can be, where nothing else was
    /// asked for.
    pub(super) fn code(&self, family: Family) -> Result<Code, Failed> {
        match family {
            Family::Layers => self.layers().map(Code::Layers),
            Family::ReedSolomon => self.blocks().map(Code::Blocks),
            Family::Sliding => Err(Failed::usage("a sliding window adapts")
                .hint("Leave out --rate, --interleave and --delayed, or choose --code layers.")),
        }
    }

    fn blocks(&self) -> Result<BlockParameters, Failed> {
        let (rate, repairs) = self.rate.unwrap_or((8, 3));
        let interleaves = self.interleave.as_ref().map_or(&[20][..], |given| &given.0);
        let &[interleave] = interleaves else {
            return Err(Failed::usage(format!("{} interleaves of blocks", interleaves.len()))
                .hint("Reed-Solomon blocks have one: --rate 8,3 --interleave 20."));
        };
        let repairs = u8::try_from(repairs).unwrap_or(u8::MAX);
        let code = BlockParameters::new(rate, repairs, interleave);
        let mut code = code.map_err(|e| Failed::usage(e.to_string()))?;
        code.delayed = self.delayed;
        Ok(code)
    }

    fn layers(&self) -> Result<Parameters, Failed> {
        let (rate, layers) = self.rate.unwrap_or((8, 3));
        let interleaves = self.interleave.as_ref().map_or(&[1, 20, 40][..], |given| &given.0);
        if layers != interleaves.len() {
            return Err(Failed::usage(format!(
                "a rate of {layers} layers and {} interleaves",
                interleaves.len()
            ))
            .hint("Give as many interleaves as layers: --rate 8,3 --interleave 1,20,40."));
        }
        let parameters = Parameters::new(rate, interleaves);
        let mut parameters = parameters.map_err(|e| Failed::usage(e.to_string()))?;
        parameters.delayed = self.delayed;
        Ok(parameters)
    }
}
