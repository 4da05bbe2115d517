//! The switch in software, with hosts in network namespaces around it. Needs root and iproute2.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddrV4, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto};
use serde_json::Value;
use wellspring_testkit::wait::wait_until;

use crate::lab::{PATIENCE, WELLSPRING, make_plain, run, skip, spawn_inside};
use crate::support::in_clear;

/// Hosts around a switch, the first of which fetches or puts.
struct Star {
    tag: String,
    folder: tempfile::TempDir,
    hosts: usize,
    /// The first so many hosts fetch and serve; others are beside.
    active: usize,
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
        let star =
            Star { tag: format!("ws{unique}"), folder, hosts, active: hosts, running: Vec::new() };
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
        in_clear(&mut command);
        command
    }

    /// Starts the switch, whose ports send at 100 Mbit/s.
    fn switch(&self, more: &str) -> Running {
        let ports: Vec<String> = (0..self.hosts).map(|host| format!("port{host}")).collect();
        self.switch_between(&ports.iter().map(String::as_str).collect::<Vec<_>>(), more)
    }

    /// Starts a switch between these interfaces.
    fn switch_between(&self, ports: &[&str], more: &str) -> Running {
        let mut command = self.inside(&self.space("switch"), WELLSPRING);
        command.args("switch --rate 100M --no-priority --json".split(' '));
        command.args(more.split_whitespace()).args(ports);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let mut said = String::new();
        let stderr = child.stderr.as_mut().expect("piped");
        BufReader::new(stderr).read_line(&mut said).expect("read");
        assert!(said.contains("joined"), "{said}");
        Running { child, said }
    }

    /// Joins two interfaces in the switches' namespace.
    fn cable(&self, one: &str, other: &str) {
        let space = self.space("switch");
        let ip = |args: &str| run(Command::new("ip").args(["-n", &space]).args(args.split(' ')));
        ip(&format!("link add {one} type veth peer name {other}"));
        for interface in [one, other] {
            make_plain(&space, interface);
            ip(&format!("link set {interface} up"));
        }
    }

    /// The page of a switch's metrics.
    fn metrics(&self, switch: &Running) -> String {
        let address = switch.said.split("metrics at http://").nth(1).expect("an address");
        let address = address.split('/').next().expect("an address").to_owned();
        let page = spawn_inside(&self.space("switch"), move || {
            let mut stream = TcpStream::connect(&address).expect("connected");
            stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("written");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("answered");
            answer
        });
        page.join().expect("a page")
    }

    /// A metric of a switch, by its name and labels.
    fn metric(&self, switch: &Running, name: &str) -> u64 {
        let page = self.metrics(switch);
        let line = page.lines().find_map(|line| {
            line.strip_prefix("wellspring_switch_")?.strip_prefix(name)?.strip_prefix(' ')
        });
        line.unwrap_or_else(|| panic!("no {name} in {page}")).parse().expect("a number")
    }

    /// Serves a folder of each host's own from all hosts but the first.
    fn serve(&mut self, more: &[&str]) {
        for host in 1..self.active {
            let folder = self.path(&host.to_string());
            std::fs::create_dir_all(&folder).expect("a folder");
            let mut command = self.inside(&self.host(host), WELLSPRING);
            command.args(["serve", "--insecure", "-q", "--bind", &(Self::address(host) + ":4711")]);
            command.args(more).arg("--cache").arg(self.path("cache")).arg(folder);
            self.running.push(command.spawn().expect("started"));
        }
    }

    fn others(&self) -> String {
        (1..self.active).map(Self::address).collect::<Vec<_>>().join(",")
    }

    fn client(&self, args: &[&str]) -> Output {
        self.inside(&self.host(0), WELLSPRING).args(args).output().expect("ran")
    }

    /// Gives all hosts but the first an object, fetches it, and returns what the fetch and the port say.
    fn fetch(&mut self, switch: &str, fabric: &str) -> (Value, Value) {
        let switch = self.switch(switch);
        let got = self.fetch_through(fabric);
        (got, end(switch).swap_remove(0))
    }

    /// Gives all hosts but the first an object, fetches it, and returns what the fetch says.
    fn fetch_through(&mut self, fabric: &str) -> Value {
        let object: Vec<u8> =
            (0..6_000_000_u64).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
        self.serve(&["--fabric", fabric]);
        for host in 1..self.active {
            std::fs::write(self.path(&format!("{host}/object")), &object).expect("written");
        }
        let (from, to) = (self.others() + "/object", self.path("copy"));
        let to = to.to_string_lossy().into_owned();
        // Pulls ask for twice what the port carries.
        let args =
            ["get", &from, "-o", &to, "--json", "-q", "--fabric", fabric, "--link-rate", "200M"];
        let got = self.client(&args);
        assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
        assert!(std::fs::read(&to).expect("fetched") == object, "other bytes");
        serde_json::from_slice(&got.stdout).expect("a summary")
    }

    /// A socket of a host, at that port of its address.
    fn socket(&self, host: usize, port: u16) -> UdpSocket {
        let address = Self::address(host);
        let opened = spawn_inside(&self.host(host), move || {
            UdpSocket::bind((address.as_str(), port)).expect("bound")
        });
        opened.join().expect("a socket")
    }
}

/// A switch that runs.
struct Running {
    child: Child,
    /// Its first line.
    said: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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
fn end(mut switch: Running) -> Vec<Value> {
    run(Command::new("kill").args(["-INT", &switch.child.id().to_string()]));
    let mut said = String::new();
    let stdout = switch.child.stdout.as_mut().expect("piped");
    stdout.read_to_string(&mut said).expect("read");
    assert!(switch.child.wait().expect("ended").success());
    let ports: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
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
fn metrics_say_what_a_port_does_by_priority() {
    let Some(mut star) = Star::new(3) else { return };
    run(Command::new("ip").args(["-n", &star.space("switch"), "link", "set", "lo", "up"]));
    let switch = star.switch("--queue 4 --metrics 127.0.0.1:0");
    let got = star.fetch_through("trimming");
    // What was sent reaches the receiver before the page.
    let sent = || star.metric(&switch, "sent_bytes_total{port=\"port0\"}");
    wait_until(|| "the page of the end", || sent() > number(&got, "bytes"));
    let page = star.metrics(&switch);
    let of = |port: &str, name: &str| -> Vec<u64> {
        let rows = page.lines().filter_map(|line| {
            line.strip_prefix(&format!("wellspring_switch_{name}{{port=\"{port}\""))?
                .split(' ')
                .nth(1)
        });
        rows.map(|value| value.parse().expect("a number")).collect()
    };
    let sum = |port: &str, name: &str| of(port, name).iter().sum::<u64>();
    assert!(sum("port0", "trimmed_packets_total") > 0, "{page}");
    assert_eq!(sum("port1", "trimmed_packets_total"), 0, "nothing but pulls: {page}");
    assert_eq!(of("port0", "queue_bytes").len(), 6, "control, and five priorities");
    // Four packets of symbols, and what is on the wire besides.
    let longest = of("port0", "queue_bytes_max");
    assert!(longest[1..].iter().any(|bytes| (4_000..8_000).contains(bytes)), "{longest:?}");
    assert!(sum("port0", "queue_sent_packets_total") >= sum("port0", "sent_packets_total"));
    let ports = end(switch);
    let trimmed: u64 = ports[0]["queues"]
        .as_array()
        .expect("queues")
        .iter()
        .map(|queue| number(queue, "trimmed"))
        .sum();
    assert_eq!(trimmed, number(&ports[0], "trimmed"));
}

#[test]
fn vlans_are_apart_and_tags_survive_trimming_and_switches_that_do_not_look() {
    let Some(mut star) = Star::new(4) else { return };
    // Hosts 1 and 2 - near - between - far - host 0; host 3 is in another VLAN.
    for (one, other) in [("near-up", "left"), ("right", "far-up")] {
        star.cable(one, other);
    }
    let trimming = "--queue 4 --access";
    let near = star.switch_between(
        &["port1", "port2", "port3", "near-up"],
        &format!("{trimming} port1=10 --access port2=10 --access port3=20 --trunk near-up=10,20"),
    );
    let file = star.path("between.pcapng");
    let capture = format!("--queue 100 --capture {}", file.display());
    let between = star.switch_between(&["left", "right"], &capture);
    let far = star
        .switch_between(&["far-up", "port0"], "--trunk far-up=10,20 --access port0=10 --queue 100");
    star.active = 3;
    let got = star.fetch_through("trimming");
    let replicas = got["replicas"].as_array().expect("replicas");
    let seen: u64 = replicas.iter().map(|replica| number(replica, "symbols_trimmed")).sum();
    // Who is in another VLAN has the same broadcasts in vain.
    let (asks, gets) = (star.socket(3, 9_000), star.socket(0, 9_000));
    gets.set_nonblocking(true).expect("set");
    let _ = asks.send_to(b"hello", gets.local_addr().expect("bound"));
    let ports = end(near);
    let trimmed = number(&ports[3], "trimmed");
    assert!(seen > 0 && seen <= trimmed, "{seen} of {trimmed}");
    assert!(number(&ports[2], "sent_bytes") < 2_000, "{}", ports[2]);
    assert_eq!(end(between)[0]["wrong_vlan"], 0);
    // The tag is in each recorded frame: those of the VLANs of hosts, and nothing else.
    if Command::new("tshark").arg("--version").output().is_ok() {
        let mut tshark = Command::new("tshark");
        // This namespace speaks IPv6 by its own ends.
        let untagged = "(ip || arp) && !(vlan.id == 10) && !(vlan.id == 20)";
        let output = tshark.arg("-r").arg(&file).args(["-Y", untagged]);
        assert_eq!(String::from_utf8_lossy(&output.output().expect("ran").stdout), "");
    }
    end(far);
    assert!(gets.recv(&mut [0; 9]).is_err());
}

#[test]
fn packets_of_a_group_go_to_ports_that_asked() {
    let Some(mut star) = Star::new(5) else { return };
    // Host 3 is the router that asks who is a member, and no member itself. Host 4 has nothing to do with it.
    star.active = 3;
    star.serve(&["--allow-put", "--fabric", "dedicated", "--link-rate", "50M"]);
    run(Command::new("ip").args(["-n", &star.space("switch"), "link", "set", "lo", "up"]));
    // On a busy machine a put may find its members one by one, and serve them so.
    assert!((0..5).any(|attempt| group_is_used(&star, attempt)), "no put used its group");
}

/// Puts a file to a group of hosts 1 and 2. False if it was sent to each instead.
fn group_is_used(star: &Star, attempt: u32) -> bool {
    // Else what is sent before a member's report has come would go everywhere.
    let options = "--queue 100 --snooping --unknown-groups routers --metrics 127.0.0.1:0";
    let switch = star.switch(options);
    // Version 2, to be answered within 10 s; its checksum is right.
    let query = [0x11, 100, 0xee, 0x9b, 0, 0, 0, 0];
    let asked = spawn_inside(&star.host(3), move || {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::IGMP));
        let all: SocketAddrV4 = "224.0.0.1:0".parse().expect("an address");
        rustix::net::sendto(socket.expect("root may"), &query, SendFlags::empty(), &all)
    });
    asked.join().expect("no panic").expect("sent");
    wait_until(
        || "the query",
        || star.metric(&switch, "group_messages_total{kind=\"query\"}") == 1,
    );
    let file = star.path(&format!("file-{attempt}"));
    std::fs::write(&file, vec![5; 700_000]).expect("written");
    let file_name = file.to_string_lossy().into_owned();
    let members = format!("{},{}", Star::address(1), Star::address(2));
    let put = star.client(&[
        "put",
        &file_name,
        &members,
        "--group",
        "239.86.0.1",
        "-q",
        "--fabric",
        "dedicated",
        "--link-rate",
        "50M",
    ]);
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    assert!(star.metric(&switch, "group_messages_total{kind=\"report\"}") > 0);
    assert_eq!(star.metric(&switch, "group_messages_total{kind=\"malformed\"}"), 0);
    let ports = end(switch);
    if number(&ports[3], "sent_bytes") < 70_000 {
        return false;
    }
    for port in &ports[1..3] {
        assert!(number(port, "sent_bytes") > 700_000, "{port}");
    }
    assert!(number(&ports[3], "sent_bytes") > 700_000, "the router, too: {}", ports[3]);
    assert!(number(&ports[4], "sent_bytes") < 70_000, "who did not ask: {}", ports[4]);
    assert!(number(&ports[0], "received_bytes") < 2 * 700_000, "{}", ports[0]);
    true
}

#[test]
fn a_capture_opens_in_tshark_and_has_what_came_and_left() {
    if Command::new("tshark").arg("--version").output().is_err() {
        return skip("`tshark` is missing");
    }
    let Some(mut star) = Star::new(3) else { return };
    let file = star.path("frames.pcapng");
    let name = file.to_string_lossy().into_owned();
    let switch = star.switch(&format!("--queue 4 --capture {name} --capture-ports port0,port1"));
    star.fetch_through("trimming");
    let ports = end(switch);
    let count = |filter: &str| -> u64 {
        let mut tshark = Command::new("tshark");
        tshark.args(["-r", &name, "-Y", filter, "-T", "fields", "-e", "frame.number"]);
        let output = tshark.output().expect("ran");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout.iter().filter(|byte| **byte == b'\n').count() as u64
    };
    for (port, way, counter) in [
        ("port0", 1, "received"),
        ("port0", 2, "sent"),
        ("port1", 1, "received"),
        ("port1", 2, "sent"),
    ] {
        let filter =
            format!("frame.interface_name == {port} && frame.packet_flags_direction == {way}");
        let of = ports.iter().find(|of| of["interface"] == port).expect("a port");
        assert_eq!(count(&filter), number(of, counter), "{port} {counter}: {of}");
    }
    assert_eq!(count("frame.interface_name == port2"), 0);
    // A trimmed packet has another DSCP, and lacks what UDP says that it has.
    let trimmed = count("frame.interface_name == port0 && ip.dsfield.dscp == 11");
    assert_eq!(trimmed, number(&ports[0], "trimmed"));
    let mut again = star.inside(&star.space("switch"), WELLSPRING);
    let again = again.args(["switch", "port0", "port1", "--capture", &name]).output().expect("ran");
    assert_eq!(again.status.code(), Some(8), "{}", String::from_utf8_lossy(&again.stderr));
}

#[test]
fn threads_keep_the_order_of_a_flow_and_trim_as_one_does() {
    let Some(mut star) = Star::new(3) else { return };
    let switch = star.switch("--queue 4 --threads 3");
    let got = star.fetch_through("trimming");
    let replicas = got["replicas"].as_array().expect("replicas");
    let seen: u64 = replicas.iter().map(|replica| number(replica, "symbols_trimmed")).sum();
    let ports = end(switch);
    let trimmed = number(&ports[0], "trimmed");
    assert!(seen > 0 && seen <= trimmed, "{seen} of {trimmed}: {}", ports[0]);
    let switch = star.switch("--queue 1000 --threads 3");
    let (from, to) = (star.socket(0, 9_000), star.socket(1, 9_000));
    from.connect(to.local_addr().expect("bound")).expect("connected");
    to.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut buffer = [0; 8];
    // In rounds, so that no buffer overflows: what is lost would not be out of order.
    for round in 0..200_u64 {
        for number in 0..100 {
            from.send(&(100 * round + number).to_be_bytes()).expect("sent");
        }
        for number in 0..100 {
            to.recv(&mut buffer).expect("came");
            assert_eq!(u64::from_be_bytes(buffer), 100 * round + number);
        }
    }
    assert_eq!(end(switch)[0]["not_handed_over"], 0);
}

#[test]
fn settings_and_interfaces_that_make_no_switch_are_refused() {
    let Some(star) = Star::new(2) else { return };
    let space = star.space("switch");
    let refused = |args: &str, says: &str| {
        let mut command = star.inside(&space, WELLSPRING);
        let output = command.arg("switch").args(args.split(' ')).output().expect("ran");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args}: {error}");
        assert!(error.contains(says), "{args}: {error}");
    };
    for (options, says) in [
        ("--queue-bytes 1500", "a queue of 1500 bytes: a frame of the interfaces has up to 1542"),
        ("--control-queue 1k", "a control queue of 1000 bytes"),
        ("--keep 43", "43 is not in 44..="),
        ("--keep 1500", "a trimmed packet of 1500 bytes: whole ones have at most 1500"),
        ("--mark-at 20", "an ECN threshold of 20 packets: the queue has room for 20"),
        ("--queue 30 --queue-bytes 30k", "cannot be used with"),
        ("--drop --keep 64", "cannot be used with"),
        ("--threads 3", "3 threads for 2 ports"),
        ("--access port0=4095", "4095 is not a VLAN"),
        ("--access port0=1,2", "more than one VLAN"),
        ("--trunk port9=10", "port9: not a port of this switch"),
        ("--trunk port0=10 --access port0=10", "port0 is access port and trunk"),
        ("--native port0=1", "port0 is no trunk"),
        ("--access port0=1 --access port0=2", "names port0 twice"),
        ("--unknown-groups routers", "--snooping"),
        ("--snooping --router-port port9", "port9: not a port of this switch"),
        ("--capture x --capture-limit 1k", "a capture of 1000 bytes"),
        ("--capture x --capture-ports port9", "port9: not a port of this switch"),
        ("--capture-limit 1M", "--capture"),
        ("--rate 0", "zero"),
    ] {
        refused(&format!("port0 port1 {options}"), says);
    }
    refused("port0 no-such-port", "no interface `no-such-port`");
    refused("port0 lo", "`lo` is not an Ethernet interface");
    run(Command::new("ip").args(["-n", &space, "addr", "add", "10.99.0.1/24", "dev", "port1"]));
    refused("port0 port1", "`port1` has an address in 10.99.0.0/24");
    run(Command::new("ip").args(["-n", &space, "addr", "flush", "dev", "port1"]));
    run(Command::new("ip").args(["-n", &space, "link", "add", "bridge0", "type", "bridge"]));
    run(Command::new("ip").args(["-n", &space, "link", "set", "port1", "master", "bridge0"]));
    refused("port0 port1", "`port1` is a part of `bridge0`");
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
    refused(&["no-such-port", "lo"], 2, "no interface `no-such-port`");
    refused(&["lo", "lo"], 2, "`lo` is named twice");
    let many: Vec<String> = (0..65).map(|port| format!("p{port}")).collect();
    refused(&many.iter().map(String::as_str).collect::<Vec<_>>(), 2, "65 ports");
    refused(&["a", "b", "--dscp-symbols", "10,10"], 2, "means two things");
    refused(&["a", "b", "--dscp-symbols", "48"], 2, "means two things");
    refused(&["a", "b", "--dscp-symbols", "1,2,3,4,5,6,7,8,9"], 2, "9 classes");
    refused(&["a", "b", "--queue", "0"], 2, "0 is not in");
}
