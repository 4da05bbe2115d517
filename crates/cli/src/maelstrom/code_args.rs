//! Arguments of Maelstrom's code: rate, interleaves, delay.

use clap::Args;
use wellspring_codec::interleave::Parameters;
use wellspring_console::exit::Failed;

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

/// How packets are mixed into repairs.
#[derive(Args, Clone, Debug)]
pub(super) struct CodeArgs {
    /// Packets in an XOR, r, and layers, c: c repairs leave for every r packets [default of layers that do not
    /// adapt: 8,3].
    #[arg(long, value_name = "R,C", value_parser = parse_rate)]
    rate: Option<(u8, usize)>,
    /// One interleave per layer, preferably without common divisors; bursts up to the largest are
    /// recovered [default of layers that do not adapt: 1,20,40].
    #[arg(long, value_name = "I,I,...", value_parser = parse_interleaves)]
    interleave: Option<Interleaves>,
    /// Delay each repair until its bin is used again. Recovery is slower, but no burst shorter than
    /// the interleave loses both a repair and its last packet.
    #[arg(long)]
    delayed: bool,
}

impl CodeArgs {
    /// Whether a code was asked for.
    pub(super) fn is_given(&self) -> bool {
        self.rate.is_some() || self.interleave.is_some() || self.delayed
    }

    /// The code; the paper's where nothing else was asked for.
    pub(super) fn parameters(&self) -> Result<Parameters, Failed> {
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
