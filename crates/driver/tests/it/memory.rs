//! The memory that a driver takes in a control group that limits it. To make one needs root.

use std::path::{Path, PathBuf};
use std::process::Command;

use wellspring_driver::DriverConfig;
use wellspring_testkit::loopback::own_address;

const PROGRAM: &str = concat!(module_path!(), "::program_that_says_what_memory_it_takes");

#[test]
#[ignore = "no test: the test of this file starts it in a control group"]
fn program_that_says_what_memory_it_takes() {
    let config = DriverConfig::new(own_address());
    println!("takes {} {}", config.receive_memory, config.send_memory);
}

/// A control group of its own, removed at the end.
struct Group(PathBuf);

impl Group {
    /// One with that limit \[bytes\], of version 1 or 2, whichever limits memory here.
    fn new(limit: u64) -> Option<Group> {
        let name = format!("wellspring-test-{}", std::process::id());
        let mounted = Path::new("/sys/fs/cgroup");
        let _ = std::fs::write(mounted.join("cgroup.subtree_control"), "+memory");
        for (above, file) in [("memory", "memory.limit_in_bytes"), ("", "memory.max")] {
            let group = mounted.join(above).join(&name);
            if !mounted.join(above).join("cgroup.procs").exists()
                || std::fs::create_dir(&group).is_err()
            {
                continue;
            }
            let group = Group(group);
            if std::fs::write(group.0.join(file), limit.to_string()).is_ok() {
                return Some(group);
            }
        }
        assert!(std::env::var_os("CI").is_none(), "not run: no control group can be made");
        println!("NOT TESTED: memory in a control group (making one needs root)");
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn in_a_control_group_a_driver_takes_a_quarter_of_the_memory_for_each_direction() {
    for (limit, expected) in [
        (400 << 20, [100 << 20; 2]),
        (1536 << 20, [384 << 20, 256 << 20]),
        (48 << 20, [16 << 20; 2]),
    ] {
        let Some(group) = Group::new(limit) else { return };
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]);
        command.arg(group.0.join("cgroup.procs")).arg(std::env::current_exe().expect("a program"));
        let name = PROGRAM.split_once("::").expect("a module").1;
        command.args(["--ignored", "--exact", "--nocapture", name]);
        let output = String::from_utf8(command.output().expect("runs").stdout).expect("UTF-8");
        let [receive, send]: [u64; 2] = expected;
        assert!(output.contains(&format!("takes {receive} {send}\n")), "{limit}: {output}");
    }
}
