//! What each room must carry: the lints of its level, and the refusal of `unsafe`.

use crate::Finding;
use crate::levels::{Level, ROOMS};
use crate::tree::Tree;

/// The rooms that may hold `unsafe`, each in few modules with the argument why it is sound.
const UNSAFE_ROOMS: &[&str] = &["kernels", "net", "appliance", "isal"];

/// Reports rooms whose clippy settings are not those of their level, or that allow `unsafe`.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for room in ROOMS {
        let short = room.package.trim_start_matches("wellspring-");
        let folder = if short == "xtask" { "xtask".into() } else { format!("crates/{short}") };
        let Some((root, source)) = ["lib.rs", "main.rs"].iter().find_map(|name| {
            let path = format!("{folder}/src/{name}");
            tree.text(&path).map(|source| (path.clone(), source))
        }) else {
            continue; // a room not built yet
        };
        if let Level::Room(0..=2) = room.level {
            let template = if short == "sim" { "lints/simulator.toml" } else { "lints/pure.toml" };
            let settings = format!("{folder}/clippy.toml");
            if tree.text(&settings).is_none() || tree.text(&settings) != tree.text(template) {
                findings.push(Finding::error(settings, format!("must be a link to {template}")));
            }
        }
        if !UNSAFE_ROOMS.contains(&short) && !source.contains("#![forbid(unsafe_code)]") {
            findings.push(Finding::error(root, "must say #![forbid(unsafe_code)]"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAFE: &str = "//! A room.\n#![forbid(unsafe_code)]\n";

    #[test]
    fn a_room_with_the_lints_of_its_level_passes() {
        let tree = Tree::of(&[
            ("lints/pure.toml", "bans"),
            ("lints/simulator.toml", "fewer bans"),
            ("crates/wire/src/lib.rs", SAFE),
            ("crates/wire/clippy.toml", "bans"),
            ("crates/sim/src/lib.rs", SAFE),
            ("crates/sim/clippy.toml", "fewer bans"),
            ("crates/net/src/lib.rs", "//! Sockets.\n"),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn missing_or_other_lints_are_a_breach() {
        for files in [
            &[("lints/pure.toml", "bans"), ("crates/wire/src/lib.rs", SAFE)][..],
            &[
                ("lints/pure.toml", "bans"),
                ("crates/wire/src/lib.rs", SAFE),
                ("crates/wire/clippy.toml", "no bans"),
            ],
        ] {
            let findings = check(&Tree::of(files));
            assert_eq!(findings.len(), 1);
            assert_eq!(findings[0].place, "crates/wire/clippy.toml");
        }
    }

    #[test]
    fn a_room_that_allows_unsafe_is_a_breach_unless_it_is_listed() {
        let tree = Tree::of(&[("crates/cli/src/main.rs", ""), ("crates/kernels/src/lib.rs", "")]);
        let places: Vec<_> = check(&tree).into_iter().map(|f| f.place).collect();
        assert_eq!(places, ["crates/kernels/clippy.toml", "crates/cli/src/main.rs"]);
    }
}
