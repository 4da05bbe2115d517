//! Exit statuses of transfers and codes, and hints for the library's errors.

use std::fmt;
use std::io;

use wellspring_client::{FetchError, HostError, HostTrouble, PutError, TreeError};
use wellspring_console::exit::{Failed, USAGE};
use wellspring_console::output::StdoutError;
use wellspring_net::driver::{Failure, StartError};
use wellspring_net::store::StoreError;
use wellspring_net::store::tree::PlanError;
use wellspring_server::BindError;

pub const TOO_FEW_SYMBOLS: u8 = 3;
pub const NO_HOST: u8 = 4;
pub const REPLICAS_DIFFER: u8 = 5;
pub const REPLICAS_LOST: u8 = 6;
pub const BAD_DIGEST: u8 = 7;
pub const TARGET_EXISTS: u8 = 8;
pub const TOO_FEW_RECEIVERS: u8 = 9;
pub const CONTRADICTION: u8 = 10;
pub const UNHEALTHY: u8 = 11;

/// What to do where somebody writes meanwhile.
const STILL_WRITTEN: &str = "Repeat the command when nobody writes there: what is in place is not moved again. Of a directory, a file that \
                             is always written can be left out by --exclude.";

/// What to do where a host takes no object of a name.
const OTHER_NAME: &str = "Choose another name there: HOST/NAME.";

/// What to do where a host takes no directory with such names.
const OTHER_TREE: &str = "Leave out what the host does not take (--exclude '.*': all whose names begin with a dot), or choose another \
                          directory there: HOST/DIR/. `wellspring serve --allow-hidden` takes names that begin with a dot, \
                          --allow-odd-names those that begin with a dash or have invisible characters.";

/// What to do where there are no keys.
const IN_CLEAR: &str = "Make keys here (wellspring key new) and have both hosts trust each other's (wellspring key trust), name the \
                        directory that has them by --keys, or go without by --insecure: then nothing is encrypted, and \
                        whoever answers is believed.";

pub fn target_exists(target: impl fmt::Display) -> Failed {
    Failed::new(TARGET_EXISTS, format!("{target} exists"))
        .hint("Choose another name by -o, or replace it by --force.")
}

pub fn no_folder(folder: impl fmt::Display) -> Failed {
    Failed::other(format!("no directory {folder}"))
        .hint("Make the directory first, or choose another by -o.")
}

/// The failure of a fetch to `output` from servers that run `server`.
pub fn of_fetch(error: &FetchError, server: &str, output: &str) -> Failed {
    let failed = |status| Failed::new(status, error.to_string());
    match error {
        FetchError::NoReplica(hosts) => {
            failed(status_of(hosts)).hint(no_replica_hint(hosts, server))
        }
        FetchError::Differ { .. } => failed(REPLICAS_DIFFER).hint(
            "Name only hosts that hold the same bytes, or say which bytes you want by --digest.",
        ),
        FetchError::NoReplicaLeft { hosts, .. }
            if hosts.iter().any(|host| host.trouble == HostTrouble::Changed) =>
        {
            failed(REPLICAS_LOST).hint("The object was changed meanwhile: repeat the command.")
        }
        FetchError::NoReplicaLeft { .. } => failed(REPLICAS_LOST).hint(
            "Start one of them again and repeat the command: it goes on from where it was. \
                 --timeout waits longer, and `wellspring doctor HOST` looks at a path.",
        ),
        FetchError::Config(_) | FetchError::RangeByProtocol | FetchError::PriorityByProtocol => {
            failed(USAGE)
        }
        FetchError::NoSuchRange { .. } => {
            failed(USAGE).hint("`wellspring stat HOST/OBJECT` says how long an object is.")
        }
        FetchError::Geometry => failed(USAGE)
            .hint("Choose --symbol-size and --block-symbols so that a block has at most 8 MiB."),
        FetchError::Store(StoreError::BadDigest { .. }) => failed(BAD_DIGEST).hint(
            "A replica sent other bytes than it announced: its file may have changed, or its \
             memory may be at fault. Nothing was written.",
        ),
        FetchError::Store(StoreError::Exists(target)) => target_exists(target),
        FetchError::Store(StoreError::NoParent(folder)) => no_folder(folder),
        FetchError::Store(StoreError::Io(error)) => Failed::system(output, error),
        FetchError::Store(StoreError::NoSpace { .. }) => {
            Failed::other(format!("{output}: {error}"))
                .hint("Free some space, or choose another disk by -o.")
        }
        FetchError::Write(error) | FetchError::Session(Failure::Write(error)) => {
            Failed::system(output, error)
        }
        _ => Failed::other(error.to_string()),
    }
}

/// The failure of a fetch that is written to a pipe or a device: a long object waits for its turn in a temporary file.
pub fn of_stream(error: FetchError, server: &str, output: &str) -> Failed {
    match error {
        // A reader that went away has what it wanted.
        FetchError::Write(error) if output == "-" => StdoutError::from(error).into(),
        FetchError::Store(StoreError::Io(error)) | FetchError::Session(Failure::Write(error)) => {
            of_temporary_file(&error, "What arrives is kept there until its turn to be written")
        }
        error => of_fetch(&error, server, output),
    }
}

/// The failure to keep something in a temporary file, which has a reason.
pub fn of_temporary_file(error: &io::Error, reason: &str) -> Failed {
    let place = std::env::temp_dir();
    let failed = Failed::system(format!("a temporary file in {}", place.display()), error);
    failed.hint(format!("{reason}: choose another directory by TMPDIR."))
}

/// The failure of a fetch of a tree into `output`.
pub fn of_tree(error: &TreeError, output: &str) -> Failed {
    let server = "wellspring serve";
    match error {
        TreeError::Fetch(error) => of_fetch(error, server, output),
        TreeError::Plan(PlanError::Place(path, cause)) => Failed::system(format!("{output}/{path}"), cause),
        TreeError::Plan(PlanError::InTheWay(_)) => Failed::new(TARGET_EXISTS, error.to_string())
            .hint("Remove it, or let --delete remove what the tree does not have."),
        TreeError::Put(PutError::NotAccepted { hosts, .. }) => {
            Failed::new(status_of(hosts), error.to_string()).hint(not_accepted_hint(hosts, OTHER_TREE))
        }
        TreeError::Put(error) => of_put(error),
        TreeError::Occupied { .. } => Failed::new(TARGET_EXISTS, error.to_string()).hint(
            "--force replaces them, where the host runs with --allow-overwrite; --dry-run shows what is sent.",
        ),
        TreeError::DirectoryThere { .. } => Failed::new(TARGET_EXISTS, error.to_string())
            .hint("Remove it there, or let --force --delete remove it."),
        TreeError::Incomplete(_) => Failed::new(TOO_FEW_RECEIVERS, error.to_string())
            .hint("Repeat the command: what is in place is not sent again."),
        TreeError::Source(_) => Failed::other(error.to_string())
            .hint(STILL_WRITTEN),
        TreeError::Plan(PlanError::Listing(_)) => Failed::new(BAD_DIGEST, error.to_string())
            .hint("The host is at fault, or its version is another. Nothing was written."),
        TreeError::Disagreement(_) => Failed::new(REPLICAS_DIFFER, error.to_string()).hint(
            "Leave out the hosts whose bytes are not those that you want. `put --force --checksum` of the right directory mends them.",
        ),
        TreeError::Beside(cause) if cause.kind() == io::ErrorKind::ResourceBusy => {
            Failed::other(format!("{output}: {error}")).hint("Repeat the command when that has ended.")
        }
        TreeError::Beside(cause) if cause.kind() == io::ErrorKind::Unsupported => {
            Failed::other(format!("{output}: {cause}")).hint("Leave out --atomic to change the directory file by file.")
        }
        TreeError::Beside(cause) => Failed::system(format!("a directory beside {output}"), cause)
            .hint("Leave out --atomic to change the directory file by file."),
        TreeError::Swap(cause) => Failed::system(format!("cannot put {output} in its place"), cause),
        _ => Failed::other(error.to_string()),
    }
}

/// The status where none of the hosts is of use.
fn status_of(hosts: &[HostError]) -> u8 {
    let in_clear = |host: &HostError| host.trouble == HostTrouble::Clear;
    if hosts.iter().any(in_clear) { USAGE } else { NO_HOST }
}

/// The failure to speak to a host in clear unasked.
pub fn in_clear(error: &HostError) -> Failed {
    Failed::usage(error.to_string()).hint(IN_CLEAR)
}

/// The hints for the kinds of trouble that hosts are in, each once; `own` are those of the command, empty for reasons
/// that need none.
fn hints(hosts: &[HostError], server: &str, own: impl Fn(HostTrouble) -> String) -> String {
    let mut hints: Vec<String> = Vec::new();
    for host in hosts {
        let hint = match host.trouble {
            HostTrouble::Silent => format!(
                "A host that does not answer: is its name right, does `{server}` of this version run there at this \
                 port, and does a firewall let UDP through? `wellspring doctor HOST` looks closer."
            ),
            HostTrouble::PortClosed => format!(
                "Start `{server}` there, or name the port that it prints when it starts: HOST:PORT."
            ),
            HostTrouble::Unresolved => {
                "Check the spelling of the host: NAME, NAME:PORT or [IPV6]:PORT.".to_owned()
            }
            HostTrouble::Keys => {
                "Both hosts must trust each other's key: `wellspring key --help` says how, and \
                 `wellspring key show` shows whom this host trusts."
                    .to_owned()
            }
            HostTrouble::Clear => IN_CLEAR.to_owned(),
            trouble => own(trouble),
        };
        if !hint.is_empty() && !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    hints.join("\n")
}

fn no_replica_hint(hosts: &[HostError], server: &str) -> String {
    let not_found = format!(
        "Check the spelling of the object: its name is its path below the directory that `{server}` serves there, as \
         `wellspring ls HOST/` shows it. A directory ends with a /. Several hosts of one object stand before it: \
         HOST,HOST/OBJECT."
    );
    hints(hosts, server, |trouble| match trouble {
        HostTrouble::NotFound => not_found.clone(),
        HostTrouble::Changed => STILL_WRITTEN.to_owned(),
        _ => String::new(),
    })
}

fn not_accepted_hint(hosts: &[HostError], other_name: &str) -> String {
    let server = "wellspring serve --allow-put";
    let hints = hints(hosts, server, |trouble| match trouble {
        HostTrouble::NotFound => other_name.to_owned(),
        HostTrouble::NotAllowed => format!(
            "Hosts take objects when they run `{server}`; an object of that name is replaced only with --force here \
             and --allow-overwrite there. Where there are keys, this host's needs the right to put."
        ),
        HostTrouble::NoRoom => {
            "Free some space there, or have more allowed: `wellspring serve --help` has the limits."
                .to_owned()
        }
        _ => String::new(),
    });
    match hosts.iter().any(|host| host.trouble == HostTrouble::Unresolved) {
        true => format!("{hints}\nA put takes one file or directory: what follows are hosts."),
        false => hints,
    }
}

pub fn of_put(error: &PutError) -> Failed {
    let failed = |status| Failed::new(status, error.to_string());
    match error {
        PutError::NotAccepted { hosts, .. } => {
            failed(status_of(hosts)).hint(not_accepted_hint(hosts, OTHER_NAME))
        }
        PutError::Incomplete(_) => failed(TOO_FEW_RECEIVERS)
            .hint(
            "Repeat the command: hosts that have the object already are done at once. `wellspring doctor HOST` looks at \
             the path to one that does not get on.",
        ),
        PutError::Config(_) | PutError::BadQuorum { .. } | PutError::TooManyHosts { .. } => {
            failed(USAGE)
        }
        _ => Failed::other(error.to_string()),
    }
}

pub fn of_start(error: &StartError) -> Failed {
    match error {
        StartError::System(error) => Failed::system("cannot open a UDP socket", error),
        error => Failed::usage(error.to_string()),
    }
}

pub fn of_bind(error: &BindError) -> Failed {
    let failed = Failed::other(error.to_string());
    match error {
        BindError::Socket(_, error) => match error.kind() {
            io::ErrorKind::AddrInUse => {
                failed.hint("Another server runs there: choose another port by --bind ADDR:PORT.")
            }
            io::ErrorKind::AddrNotAvailable => failed
                .hint("This machine has no such address (ip addr lists them): choose by --bind."),
            io::ErrorKind::PermissionDenied => {
                failed.hint("Ports below 1024 need root: choose another by --bind ADDR:PORT.")
            }
            _ => failed,
        },
        BindError::Config(error) => Failed::usage(error.to_string()),
        BindError::Directory(path, StoreError::Io(error)) => {
            let failed = Failed::system(format!("cannot serve {}", path.display()), error);
            match error.kind() {
                io::ErrorKind::NotADirectory => {
                    failed.hint("Name a directory: its files are served.")
                }
                _ => failed,
            }
        }
        _ => failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TROUBLES: [HostTrouble; 7] = [
        HostTrouble::Silent,
        HostTrouble::PortClosed,
        HostTrouble::Unresolved,
        HostTrouble::NotFound,
        HostTrouble::Keys,
        HostTrouble::Changed,
        HostTrouble::Clear,
    ];

    fn hint(troubles: &[HostTrouble]) -> String {
        let host = |trouble: &HostTrouble| HostError {
            host: "a".into(),
            reason: "told".into(),
            trouble: *trouble,
        };
        let error = FetchError::NoReplica(troubles.iter().map(host).collect());
        of_fetch(&error, "wellspring serve", "x").hint.unwrap_or_default()
    }

    #[test]
    fn each_trouble_of_a_host_has_a_hint_of_its_own() {
        let words = [
            "firewall",
            "HOST:PORT",
            "spelling of the host",
            "spelling of the object",
            "key show",
            "nobody writes",
            "--insecure",
        ];
        for (trouble, word) in TROUBLES.iter().zip(words) {
            let hint = hint(&[*trouble]);
            let found: Vec<_> = words.iter().filter(|word| hint.contains(**word)).collect();
            assert_eq!(found, [&word], "{trouble:?}: {hint}");
        }
        assert_eq!(hint(&[HostTrouble::Other]), "", "the reason says it all");
        let all = hint(&[&TROUBLES[..], &TROUBLES[..]].concat());
        assert_eq!(all.lines().count(), 7, "each once: {all}");
    }

    #[test]
    fn a_put_has_hints_of_its_own() {
        let hint = |trouble| {
            let host = HostError { host: "a".into(), reason: "told".into(), trouble };
            let error = PutError::NotAccepted { needed: 1, hosts: vec![host] };
            of_put(&error).hint.expect("a hint")
        };
        let closed = hint(HostTrouble::PortClosed);
        assert!(closed.contains("HOST:PORT") && !closed.contains("--allow-overwrite"), "{closed}");
        let in_the_way = hint(HostTrouble::NotFound);
        assert!(in_the_way.contains("another name"), "{in_the_way}");
        assert!(!in_the_way.contains("--allow-put"), "{in_the_way}");
        assert!(hint(HostTrouble::Unresolved).contains("one file or directory"));
        assert!(hint(HostTrouble::NotAllowed).contains("--allow-put"));
        let no_room = hint(HostTrouble::NoRoom);
        assert!(no_room.contains("space") && !no_room.contains("--allow-put"), "{no_room}");
    }
}
