//! The switch in software, with hosts in network namespaces around it. Needs root and iproute2.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use crate::lab::{WELLSPRING, make_plain, run, skip};
use serde_json::Value;

/// Hosts around a switch, the first of which fetches or puts.
struct Star {
    tag: String,
    folder: tempfile::TempDir,
    hosts: usize,
    running: Vec<Child>,
}

impl Star {
    /// None where namespaces are not allowed.
    fn new(hosts: usize) -> Option<Self> {
        if Command::new("id").arg("-u").output().expect("id").stdout != b"0\n" {
            skip("network namespaces need root");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let unique = folder.path().file_name().expect("a name").to_string_lossy().into_owned();
        let star = Star { tag: format!("ws{unique}"), folder, hosts, running: Vec::new() };
        run(Command::new("ip").args(["netns", "add", &star.space("switch")]));
        for host in 0..hosts {
            star.add_host(host);
        }
        Some(star)
    }

    fn add_host(&self, host: usize) {
        let (space, switch, port) = (self.host(host), self.space("switch"), format!("port{host}"));
        let ip = |args: &str| run(Command::new("ip").args(args.split(' ')));
        ip(&format!("netns add {space}"));
        ip(&format!("-n {space} link add eth0 type veth peer name {port} netns {switch}"));
        ip(&format!("-n {space} addr add {} dev eth0", Self::address(host) + "/24"));
        make_plain(&space, "eth0");
        make_plain(&switch, &port);
        ip(&format!("-n {space} link set lo up"));
        ip(&format!("-n {space} link set eth0 up"));
        ip(&format!("-n {switch} link set {port} up"));
        ip(&format!("-n {space} route add 224.0.0.0/4 dev eth0"));
    }

    fn space(&self, part: &str) -> String {
        format!("{}{part}", self.tag)
    }

    fn host(&self, host: usize) -> String {
        self.space(&host.to_string())
    }

    fn address(host: usize) -> String {
        format!("10.86.0.{}", host + 1)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn inside(&self, space: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", space, program]);
        command
    }

    /// Starts the switch, whose ports send at 100 Mbit/s.
    fn switch(&self, more: &str) -> Child {
        let mut command = self.inside(&self.space("switch"), WELLSPRING);
        command.args("switch --rate 100M --no-priority --json".split(' '));
        command.args(more.split_whitespace());
        command.args((0..self.hosts).map(|host| format!("port{host}")));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let mut said = String::new();
        let stderr = child.stderr.as_mut().expect("piped");
        BufReader::new(stderr).read_line(&mut said).expect("read");
        assert!(said.contains("joined"), "{said}");
        child
    }

    /// Serves a folder of each host's own from all hosts but the first.
    fn serve(&mut self, more: &[&str]) {
        for host in 1..self.hosts {
            let folder = self.path(&host.to_string());
            std::fs::create_dir_all(&folder).expect("a folder");
            let mut command = self.inside(&self.host(host), WELLSPRING);
            command.args(["serve", "--insecure", "-q", "--bind", &(Self::address(host) + ":4711")]);
            command.args(more).arg("--cache").arg(self.path("cache")).arg(folder);
            self.running.push(command.spawn().expect("started"));
        }
    }

    fn others(&self) -> String {
        (1..self.hosts).map(Self::address).collect::<Vec<_>>().join(",")
    }

    fn client(&self, args: &[&str]) -> Output {
        self.inside(&self.host(0), WELLSPRING).args(args).output().expect("ran")
    }

    /// Gives all hosts but the first an object, fetches it, and returns what the fetch and the port say.
    fn fetch(&mut self, switch: &str, fabric: &str) -> (Value, Value) {
        let object: Vec<u8> =
            (0..6_000_000_u64).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
        self.serve(&["--fabric", fabric]);
        for host in 1..self.hosts {
            std::fs::write(self.path(&format!("{host}/object")), &object).expect("written");
        }
        let switch = self.switch(switch);
        let (from, to) = (self.others() + "/object", self.path("copy"));
        let to = to.to_string_lossy().into_owned();
        // Pulls ask for twice what the port carries.
        let args =
            ["get", &from, "-o", &to, "--json", "-q", "--fabric", fabric, "--link-rate", "200M"];
        let got = self.client(&args);
        assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
        assert!(std::fs::read(&to).expect("fetched") == object, "other bytes");
        let got = serde_json::from_slice(&got.stdout).expect("a summary");
        (got, end(switch).swap_remove(0))
    }
}

impl Drop for Star {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
        let hosts = (0..self.hosts).map(|host| self.host(host));
        for space in hosts.chain([self.space("switch")]) {
            let _ = Command::new("ip").args(["netns", "del", &space]).output();
        }
    }
}

/// Ends the switch, and returns what each port did.
fn end(switch: Child) -> Vec<Value> {
    run(Command::new("kill").args(["-INT", &switch.id().to_string()]));
    let output = switch.wait_with_output().expect("ended");
    assert!(output.status.success());
    let ports: Vec<Value> = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("JSON"))
        .collect();
    for port in &ports {
        assert_eq!(port["unlike"], 0, "{port}");
    }
    ports
}

fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("no {key} in {of}"))
}

#[test]
fn a_switch_that_trims_tells_the_receiver_of_every_loss() {
    let Some(mut star) = Star::new(3) else { return };
    let (got, port) = star.fetch("--queue 4", "trimming");
    let replicas = got["replicas"].as_array().expect("replicas");
    let seen: u64 = replicas.iter().map(|replica| number(replica, "symbols_trimmed")).sum();
    let trimmed = number(&port, "trimmed");
    assert!(seen > 0 && seen <= trimmed, "{seen} of {trimmed} trims were seen: {port}");
    assert_eq!(number(&port, "dropped_control"), 0, "{port}");
    assert_eq!(number(&port, "longest_queue"), 4, "{port}");
}

#[test]
fn a_switch_that_drops_is_survived_too() {
    let Some(mut star) = Star::new(3) else { return };
    let (got, port) = star.fetch("--queue 4 --drop", "shared");
    assert_eq!(number(&port, "trimmed"), 0, "{port}");
    assert!(number(&port, "dropped") > 0, "{port}");
    assert_eq!(got["trims_seen"], false);
}

#[test]
fn a_switch_that_marks_is_heard_before_it_drops() {
    let Some(mut star) = Star::new(3) else { return };
    let (_, port) = star.fetch("--queue 1000 --mark-at 5 --drop", "shared");
    let (marked, dropped) = (number(&port, "marked"), number(&port, "dropped"));
    assert!(marked > 0, "{port}");
    assert_eq!(dropped, 0, "{port}");
}

#[test]
fn what_is_for_many_reaches_all() {
    let Some(mut star) = Star::new(4) else { return };
    // Receivers pull, so they need the rate of the ports.
    star.serve(&["--allow-put", "--fabric", "dedicated", "--link-rate", "50M"]);
    let switch = star.switch("--queue 100");
    let file = star.path("file");
    std::fs::write(&file, vec![5; 700_000]).expect("written");
    let others = star.others();
    let file_name = file.to_string_lossy().into_owned();
    let args = [
        "put",
        &file_name,
        &others,
        "--group",
        "239.86.0.1",
        "-q",
        "--json",
        "--fabric",
        "dedicated",
        "--link-rate",
        "50M",
    ];
    let put = star.client(&args);
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    for host in 1..4 {
        let copy = std::fs::read(star.path(&format!("{host}/file"))).expect("there");
        assert!(copy == vec![5; 700_000], "host {host} has other bytes");
    }
    // Each symbol came in once and left three times.
    let ports = end(switch);
    let came = number(&ports[0], "received_bytes");
    for port in &ports[1..] {
        assert!(number(port, "sent_bytes") > 700_000, "{port}");
    }
    assert!(came < 2 * 700_000, "{came} bytes were sent for 700000");
}

#[test]
fn what_cannot_be_a_switch_is_refused() {
    let refused = |args: &[&str], status: i32, says: &str| {
        let output = Command::new(WELLSPRING).arg("switch").args(args).output().expect("ran");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {error}");
        assert!(error.contains(says), "{args:?}: {error}");
    };
    refused(&["lo"], 2, "2 values required");
    refused(&["lo", "no-such-port"], 1, "");
    refused(&["lo", "lo"], 1, "");
    refused(&["a", "b", "--dscp-symbols", "10,10"], 2, "means two things");
    refused(&["a", "b", "--dscp-symbols", "48"], 2, "means two things");
    refused(&["a", "b", "--dscp-symbols", "1,2,3,4,5,6,7,8,9"], 2, "9 classes");
    refused(&["a", "b", "--queue", "0"], 2, "0 is not in");
}
