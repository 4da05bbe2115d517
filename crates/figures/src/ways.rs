//! Ways to write several replicas without multicast, of which a protocol is held by its better one.

use super::lab::Lab;

/// A chain of replicas instead of a copy to each.
pub(super) const DAISY_CHAIN: (&str, &str) = ("workload.write_by", "daisy-chain");

/// Mean goodput of the two ways to write under one load (SCDP §V-B).
#[derive(Clone, Copy)]
pub(super) struct Ways {
    /// A copy to each replica.
    pub copies: f64,
    /// From replica to replica.
    pub chain: f64,
}

impl Ways {
    /// The higher goodput, and the way that has it.
    pub fn better(self) -> (f64, &'static str) {
        if self.chain > self.copies {
            (self.chain, "daisy chain")
        } else {
            (self.copies, "multi-unicast")
        }
    }
}

/// SCDP's goodput of writes above NDP's "even when daisy-chaining is used" (§V-B), beside NDP+'s.
pub(super) fn scdp_above_ndp(lab: &mut Lab, load: &str, scdp: f64, ndp: Ways, plus: f64) {
    let (better, way) = ndp.better();
    let what = format!(
        "{load}: mean goodput SCDP > NDP by the better of multi-unicast and daisy chain (/ NDP+, multi-unicast) [Gbit/s]"
    );
    lab.holds(&what, format!("{scdp:.3} / {better:.3}, {way} / {plus:.3}"), scdp > better);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scale;
    use wellspring_experiments::sweep::Output;

    #[test]
    fn scdp_is_held_against_the_better_way_to_write() {
        let mut lab = Lab::new(Scale::default(), Output::default(), &|_, _, _| {});
        for (copies, chain) in [(0.3, 0.6), (0.6, 0.3), (0.3, 0.4)] {
            scdp_above_ndp(&mut lab, "light", 0.5, Ways { copies, chain }, 0.3);
        }
        let rows: Vec<_> =
            lab.checks.iter().map(|check| (check.ours.as_str(), check.fits)).collect();
        let expected = [
            ("0.500 / 0.600, daisy chain / 0.300", Some(false)),
            ("0.500 / 0.600, multi-unicast / 0.300", Some(false)),
            ("0.500 / 0.400, daisy chain / 0.300", Some(true)),
        ];
        assert_eq!(rows, expected);
    }
}
