//! The systemd unit of packaging/: systemd accepts it, and what it starts does its work with no more
//! rights than the unit leaves it. Needs root, iproute2, nftables, util-linux and `systemd-analyze`.

use std::path::PathBuf;
use std::process::Command;

use crate::lab::{self, Lab, NO_LOSS, WELLSPRING};

const NAME: &str = "wellspring-maelstrom@";

fn unit() -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("../../packaging/systemd").join(format!("{NAME}.service"));
    std::fs::read_to_string(path).expect("the unit")
}

/// All values of a setting, one behind the other.
fn setting(unit: &str, name: &str) -> String {
    let values = unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let values: Vec<&str> = values.collect();
    assert!(!values.is_empty(), "the unit has no {name}");
    values.join(" ")
}

#[test]
fn systemd_accepts_the_unit() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        lab::skip("`systemd-analyze` is missing");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let verify = |text: &str| {
        let path = folder.path().join(format!("{NAME}test.service"));
        std::fs::write(&path, text).expect("written");
        let mut command = Command::new("systemd-analyze");
        let output = command.args(["verify", "--man=no"]).arg(&path).output().expect("run");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // The program is where the package puts it, which is not here.
    let text = unit().replace("/usr/local/bin/wellspring", WELLSPRING);
    let (good, said) = verify(&text);
    assert!(good && !said.contains(NAME), "{said}");
    // It would say so.
    let (_, said) = verify(&text.replace("RestartSec=1", "RestartSec=soon\nRestartSecond=1"));
    assert!(said.contains("RestartSec") && said.contains("RestartSecond"), "{said}");
}

#[test]
fn what_the_unit_starts_works_with_the_rights_that_it_has() {
    if Command::new("nft").arg("--version").output().is_err() {
        lab::skip("split mode needs nft, of nftables");
        return;
    }
    let Some(mut lab) = Lab::new(NO_LOSS) else { return };
    let unit = unit();
    let (key, folder) = (lab.path("key"), lab.path(""));
    let split = |remote: &str| {
        format!("--mode split --aggregate 200 --multicast 239.82.0.1 --remote {remote}")
    };
    // What a file in /etc/wellspring would say.
    let options = format!(
        "--lan lan --wan wan --peer 10.82.0.2 --key {key} --run-dir {folder} {}",
        split("10.82.2.0/24")
    );
    let start = setting(&unit, "ExecStart").replace("%i", "aa").replace("$OPTIONS", &options);
    let start = start.strip_prefix("/usr/local/bin/wellspring ").expect("where it is installed");
    // Capabilities, privileges and the scheduler as systemd would set them.
    let rights: Vec<String> = setting(&unit, "CapabilityBoundingSet")
        .split(' ')
        .map(|name| format!("+{}", name.strip_prefix("CAP_").expect("a name").to_lowercase()))
        .collect();
    let rights = format!("-all,{}", rights.join(","));
    assert_eq!(setting(&unit, "NoNewPrivileges"), "yes");
    assert_eq!(setting(&unit, "CPUSchedulingPolicy"), "fifo");
    let priority = setting(&unit, "CPUSchedulingPriority");
    let mut command = vec!["chrt", "-f", &priority];
    let tried = Command::new("chrt").args(&command[1..]).arg("true").output();
    if !tried.is_ok_and(|output| output.status.success()) {
        eprintln!("no real-time scheduling here: the appliance runs without");
        command.clear();
    }
    command.extend(["setpriv", "--no-new-privs", "--bounding-set", &rights, "--", WELLSPRING]);
    command.extend(start.split(' '));
    lab.start_program("aa", "aa", command[0], &command[1..]);
    let remote = split("10.82.1.0/24");
    let more: Vec<&str> = remote.split(' ').collect();
    lab.start_appliance_with("ab", "ab", "10.82.0.1", &more);
    lab.wait_for_peers();
    for what in ["/split/taking", "/bundles/taking"] {
        lab.wait_until(what, |lab| {
            lab.status("aa").pointer(what).is_some_and(|taking| taking == true)
        });
    }
    // After an end in good order, which this checks, it stays down.
    assert_eq!(setting(&unit, "Restart"), "on-failure");
    lab.down("aa");
}
