//! Quantities in scenario files: numbers with units, as strings.

use core::fmt;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use wellspring_core as core_types;
use wellspring_sim::units;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $parse:path, $show:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub struct $name(pub $inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                $parse(&text).map($name).map_err(de::Error::custom)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let show: fn(&$inner) -> String = $show;
                f.write_str(&show(&self.0))
            }
        }
    };
}

quantity!(
    /// A span of time: `"10us"`.
    Span, core_types::Duration, units::parse_duration, |d| format!("{}ps", d.as_picos())
);
quantity!(
    /// A rate: `"1Gbit/s"`.
    BitRate, core_types::Rate, units::parse_rate, |r| format!("{}bit/s", r.as_bits_per_second())
);
quantity!(
    /// A size: `"4MB"`.
    Size, u64, units::parse_bytes, |b| format!("{b}B")
);
