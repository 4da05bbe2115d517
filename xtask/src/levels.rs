//! The dependency rule: a crate depends only on lower levels, and sockets live in level 3.
//!
//! The table below is the one place where levels are written down. Dev-dependencies are free of the
//! level rule (a test may look down from anywhere) but not of the socket rule.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::finding::Finding;

/// Where a package stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A crate of the product; depends only on crates of a lower number.
    Product(u8),
    /// A tool for developers: may depend on every crate; only tests depend on it.
    Dev,
}

/// A crate: its package, its level, and the crates it must not depend on although they are lower.
pub struct Crate {
    pub package: &'static str,
    pub level: Level,
    pub blind_to: &'static [&'static str],
    /// Socket crates that it may use all the same, for what they hold beside sockets.
    pub may_use: &'static [&'static str],
}

const fn product(package: &'static str, level: u8) -> Crate {
    Crate { package, level: Level::Product(level), blind_to: &[], may_use: &[] }
}

/// Every crate of the workspace, lowest first.
pub const CRATES: &[Crate] = &[
    product("wellspring-core", 0),
    product("wellspring-kernels", 0),
    product("wellspring-codec", 1),
    product("wellspring-wire", 1),
    product("wellspring-fabric", 1),
    product("wellspring-tree", 1),
    // Identities here, bytes there: decoding is an effect the endpoint asks for.
    Crate {
        package: "wellspring-transport",
        level: Level::Product(2),
        blind_to: &["wellspring-codec", "wellspring-kernels", "wellspring-fabric"],
        may_use: &[],
    },
    product("wellspring-maelstrom", 2),
    product("wellspring-trust", 2),
    // The simulator moves frames of any protocol and so knows none.
    Crate {
        package: "wellspring-sim",
        level: Level::Product(2),
        blind_to: &["wellspring-wire", "wellspring-codec", "wellspring-kernels"],
        may_use: &[],
    },
    // Files, threads and the clock, but no socket: of these crates the calls on files and the
    // channels. Knows no protocol.
    Crate {
        package: "wellspring-store",
        level: Level::Product(2),
        blind_to: &["wellspring-wire", "wellspring-transport"],
        may_use: &["rustix", "tokio"],
    },
    // Protocols on sockets for whoever brings the bytes. Client and server are built on it.
    product("wellspring-driver", 3),
    product("wellspring-appliance", 3),
    product("wellspring-scenario", 3),
    product("wellspring-experiments", 4),
    product("wellspring-figures", 5),
    product("wellspring-isal", 3),
    product("wellspring-console", 3),
    // What client and server share; neither knows the other.
    product("wellspring-net", 4),
    product("wellspring-client", 5),
    product("wellspring-server", 5),
    // The operators' program: no simulator, and no codec to measure ours against.
    Crate {
        package: "wellspring-cli",
        level: Level::Product(6),
        blind_to: &[
            "wellspring-sim",
            "wellspring-experiments",
            "wellspring-figures",
            "wellspring-isal",
            "raptorq",
            "reed-solomon-simd",
        ],
        may_use: &[],
    },
    product("wellspring-lab", 6),
    product("wellspring-web", 6),
    product("wellspring-py", 6),
    // Runs the store's own code on a disk that fails: a tool of tests, which nothing depends on.
    Crate { package: "wellspring-fault-sim", level: Level::Dev, blind_to: &[], may_use: &[] },
    Crate { package: "wellspring-testkit", level: Level::Dev, blind_to: &[], may_use: &[] },
    Crate { package: "wellspring-fuzz", level: Level::Dev, blind_to: &[], may_use: &[] },
    Crate { package: "xtask", level: Level::Dev, blind_to: &[], may_use: &[] },
];

/// Crates that open sockets or run an event loop: for level 3 and above.
const SOCKET_CRATES: &[&str] = &["socket2", "mio", "tokio", "nix", "rustix"];

/// Names that say nothing about what a crate holds.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "helpers", "misc", "shared"];

/// A dependency as a manifest states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    pub name: String,
    pub dev: bool,
}

/// A package of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    /// From the workspace's root.
    pub folder: String,
    pub dependencies: Vec<Dependency>,
    /// All it needs to run, near and far.
    pub closure: BTreeSet<String>,
}

/// The entry of `package` in the table.
pub fn find(package: &str) -> Option<&'static Crate> {
    CRATES.iter().find(|entry| entry.package == package)
}

/// Reports what breaks the dependency rule.
pub fn check(packages: &[Package]) -> Vec<Finding> {
    packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Package) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut breach = |message: String| findings.push(Finding::error(&package.name, message));
    let words = || package.name.split(['-', '_']);
    if let Some(word) = words().find(|word| EMPTY_NAMES.contains(word)) {
        breach(format!("`{word}` says nothing: name the crate for what it holds"));
    }
    let Some(entry) = find(&package.name) else {
        breach("has no entry in the table of levels (xtask/src/levels.rs)".to_owned());
        return findings;
    };
    if entry.level != Level::Dev && !package.name.starts_with("wellspring-") {
        breach("is not named `wellspring-*`".to_owned());
    }
    for dependency in package.dependencies.iter().filter(|d| !d.dev) {
        let Some(other) = find(&dependency.name) else { continue };
        match (entry.level, other.level) {
            (Level::Dev, _) => {}
            (_, Level::Dev) => {
                breach(format!("depends on `{}`, which is for tests only", other.package));
            }
            (Level::Product(own), Level::Product(theirs)) if own <= theirs => breach(format!(
                "(level {own}) depends on `{}` (level {theirs}), which is not lower",
                other.package
            )),
            _ => {}
        }
    }
    for unseen in entry.blind_to.iter().filter(|name| package.closure.contains(**name)) {
        breach(format!("must not see `{unseen}`, not even through another crate"));
    }
    if matches!(entry.level, Level::Product(0..=2)) {
        let direct = package.dependencies.iter().map(|d| d.name.as_str());
        let direct: BTreeSet<_> = direct.collect();
        for name in SOCKET_CRATES.iter().filter(|name| !entry.may_use.contains(name)) {
            // What stands behind a crate that may be used depends on features that others turn on.
            let far = entry.may_use.is_empty() && package.closure.contains(*name);
            if far || direct.contains(name) {
                breach(format!("needs `{name}`: sockets and runtimes belong to level 3"));
            }
        }
        if direct.contains("libc") {
            breach("needs `libc`: system calls belong to level 3".to_owned());
        }
    }
    findings
}

/// The crates that exist, with their levels and what they depend on.
pub fn table(packages: &[Package]) -> String {
    let mut table = String::from("level  crate                    depends on\n");
    for entry in CRATES {
        let Some(package) = packages.iter().find(|p| p.name == entry.package) else { continue };
        let level = match entry.level {
            Level::Product(number) => number.to_string(),
            Level::Dev => "dev".to_owned(),
        };
        let needs: Vec<_> = package
            .dependencies
            .iter()
            .filter(|d| !d.dev && find(&d.name).is_some())
            .map(|d| d.name.trim_start_matches("wellspring-"))
            .collect();
        let line = format!("{level:5}  {:23}  {}", package.folder, needs.join(" "));
        writeln!(table, "{}", line.trim_end()).expect("writing to a string cannot fail");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, needs: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            folder: format!("crates/{}", name.trim_start_matches("wellspring-")),
            dependencies: needs
                .iter()
                .map(|need| Dependency { name: (*need).to_owned(), dev: false })
                .collect(),
            closure: needs.iter().map(|need| (*need).to_owned()).collect(),
        }
    }

    fn messages(package: Package) -> Vec<String> {
        check(&[package]).into_iter().map(|f| f.message).collect()
    }

    #[test]
    fn looking_down_is_allowed() {
        assert!(messages(package("wellspring-net", &["wellspring-codec", "tokio"])).is_empty());
        assert!(messages(package("wellspring-transport", &["wellspring-wire"])).is_empty());
    }

    #[test]
    fn looking_up_or_sideways_is_a_breach() {
        let up = messages(package("wellspring-wire", &["wellspring-net"]));
        assert!(up[0].contains("level 1") && up[0].contains("level 4"), "{up:?}");
        assert_eq!(messages(package("wellspring-wire", &["wellspring-codec"])).len(), 1);
    }

    #[test]
    fn the_driver_knows_no_client_and_no_server() {
        assert!(messages(package("wellspring-net", &["wellspring-driver"])).is_empty());
        assert_eq!(messages(package("wellspring-driver", &["wellspring-net"])).len(), 1);
    }

    #[test]
    fn client_and_server_do_not_know_each_other() {
        for (one, other) in
            [("wellspring-client", "wellspring-server"), ("wellspring-server", "wellspring-client")]
        {
            let mut crate_of_one = package(one, &["wellspring-net"]);
            assert!(messages(crate_of_one.clone()).is_empty());
            crate_of_one.dependencies.push(Dependency { name: other.to_owned(), dev: false });
            assert_eq!(messages(crate_of_one).len(), 1, "{one}");
        }
    }

    #[test]
    fn transport_sees_no_codec_even_from_afar() {
        let mut transport = package("wellspring-transport", &["wellspring-wire"]);
        transport.closure.insert("wellspring-codec".to_owned());
        assert_eq!(messages(transport).len(), 1);
    }

    #[test]
    fn the_simulator_sees_no_protocol() {
        assert_eq!(messages(package("wellspring-sim", &["wellspring-transport"])).len(), 1);
        assert_eq!(messages(package("wellspring-sim", &["wellspring-wire"])).len(), 1);
        assert!(messages(package("wellspring-sim", &["wellspring-fabric"])).is_empty());
    }

    #[test]
    fn the_operators_program_links_no_simulator_and_no_peer_codec() {
        for unseen in ["wellspring-sim", "wellspring-experiments", "wellspring-isal", "raptorq"] {
            let mut cli = package("wellspring-cli", &["wellspring-net"]);
            cli.closure.insert(unseen.to_owned());
            assert_eq!(messages(cli).len(), 1, "{unseen}");
        }
    }

    #[test]
    fn sockets_below_level_3_are_a_breach_near_and_far() {
        assert_eq!(messages(package("wellspring-core", &["tokio"])).len(), 1);
        assert_eq!(messages(package("wellspring-core", &["libc"])).len(), 1);
        let mut far = package("wellspring-codec", &["innocent"]);
        far.closure.insert("mio".to_owned());
        assert_eq!(messages(far).len(), 1);
    }

    #[test]
    fn the_store_sees_files_and_channels_but_no_socket_and_no_protocol() {
        assert!(messages(package("wellspring-store", &["rustix", "tokio"])).is_empty());
        assert_eq!(messages(package("wellspring-store", &["mio"])).len(), 1);
        assert_eq!(messages(package("wellspring-store", &["wellspring-wire"])).len(), 1);
    }

    #[test]
    fn a_test_may_use_the_testkit_but_no_socket() {
        let mut transport = package("wellspring-transport", &[]);
        transport.dependencies.push(Dependency { name: "wellspring-testkit".into(), dev: true });
        assert!(messages(transport.clone()).is_empty());
        transport.dependencies.push(Dependency { name: "tokio".into(), dev: true });
        assert_eq!(messages(transport).len(), 1);
    }

    #[test]
    fn the_product_does_not_depend_on_tools() {
        assert_eq!(messages(package("wellspring-net", &["wellspring-testkit"])).len(), 1);
    }

    #[test]
    fn unknown_and_empty_names_are_breaches() {
        assert_eq!(messages(package("wellspring-novelty", &[])).len(), 1);
        assert_eq!(messages(package("wellspring-util", &[])).len(), 2);
    }

    #[test]
    fn the_table_shows_what_exists() {
        let shown = table(&[package("wellspring-net", &["wellspring-codec", "tokio"])]);
        assert!(shown.contains("4      crates/net               codec\n"), "{shown}");
        assert!(!shown.contains("sim"));
    }
}
