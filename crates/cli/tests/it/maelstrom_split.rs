//! Split mode in network namespaces: connections end at the near appliance and go on over the long
//! link, whole, with their ends, resets and addresses. Needs root, iproute2 and nftables.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::lab::exchange::there_and_back;
use crate::lab::{self, HOST_A, HOST_B, Lab, Losses, NO_LOSS, PATIENCE};
use rustix::net::sockopt::{
    set_socket_linger, set_socket_recv_buffer_size, set_socket_send_buffer_size,
};

/// The test that is the program of a host.
const HOST: &str = concat!(module_path!(), "::program_of_a_host");
const PORT: u16 = 5_000;
/// The far appliance's address in its local network.
const ROUTER_B: &str = "10.82.2.1";
/// What is said each way.
const LEN: usize = 1 << 20;
/// What a host that is short of memory keeps of a connection.
const BUFFER: usize = 32 << 10;
/// More than all buffers on the way together.
const MUCH: usize = 512 << 20;
const ONE_WAY_MS: u64 = 50;

/// The program of a host in its namespace.
#[test]
#[ignore = "no test: the tests of this file start it as a host"]
fn program_of_a_host() {
    let role = lab::role();
    match role.as_str() {
        "receive-and-answer" => serve(|mut stream| {
            assert_eq!(stream.peer_addr().expect("one").ip().to_string(), HOST_A, "who it is");
            let mut bytes = Vec::new();
            if stream.read_to_end(&mut bytes).is_ok() {
                bytes.iter_mut().for_each(|byte| *byte = !*byte);
                let _ = stream.write_all(&bytes);
            }
        }),
        "ask-the-router" => {
            // The appliance of this site has taken the connection.
            let mut stream = TcpStream::connect((ROUTER_B, PORT)).expect("a connection");
            let error = stream.read_to_end(&mut Vec::new()).expect_err("no end, but a reset");
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        "receive-and-reset" => serve(|mut stream| {
            let _ = stream.read(&mut [0; 4]);
            set_socket_linger(&stream, Some(Duration::ZERO)).expect("set");
        }),
        "receive-a-reset" => {
            let listener = TcpListener::bind(("0.0.0.0", PORT)).expect("a port");
            println!("ready");
            let (mut stream, _) = listener.accept().expect("a connection");
            let error = stream.read_to_end(&mut Vec::new()).expect_err("no end, but a reset");
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            println!("seen 1");
        }
        "receive-nothing" => serve(|stream| {
            std::thread::sleep(2 * PATIENCE);
            drop(stream);
        }),
        "fill" => {
            let mut stream = connect();
            stream.set_write_timeout(Some(Duration::from_secs(3))).expect("set");
            let mut taken = 0;
            // Far more than anybody may keep for it.
            while taken < MUCH {
                match stream.write(&[7; 1 << 16]) {
                    Ok(written) => taken += written,
                    Err(_) => break,
                }
            }
            println!("seen {taken}");
        }
        "exchange" => exchange(),
        "connect" => {
            drop(connect());
        }
        "reset" => {
            let mut stream = connect();
            stream.write_all(&[7; 1_000]).expect("taken");
            // It is to be reset, not never to be.
            std::thread::sleep(Duration::from_secs(1));
            set_socket_linger(&stream, Some(Duration::ZERO)).expect("set");
        }
        "expect-reset" => {
            let Ok(mut stream) = TcpStream::connect((HOST_B, PORT)) else { return };
            let _ = stream.write_all(&[7; 4]);
            let error = stream.read_to_end(&mut Vec::new()).expect_err("no end, but a reset");
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        other => panic!("no role {other}"),
    }
}

fn serve(with: fn(TcpStream)) {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).expect("a port");
    set_socket_recv_buffer_size(&listener, BUFFER).expect("set");
    set_socket_send_buffer_size(&listener, BUFFER).expect("set");
    println!("ready");
    for stream in listener.incoming() {
        let stream = stream.expect("a connection");
        std::thread::spawn(move || with(stream));
    }
}

fn connect() -> TcpStream {
    TcpStream::connect((HOST_B, PORT)).expect("a connection")
}

/// Says much, then that it is all, and hears the answer to it.
fn exchange() {
    let connects: Vec<Duration> = (0..5)
        .map(|_| {
            let begin = Instant::now();
            drop(connect());
            begin.elapsed()
        })
        .collect();
    let least = connects.iter().min().expect("five");
    let begin = Instant::now();
    let stream = connect();
    set_socket_recv_buffer_size(&stream, BUFFER).expect("set");
    set_socket_send_buffer_size(&stream, BUFFER).expect("set");
    there_and_back(stream, LEN);
    println!("connect {} exchange {}", least.as_micros(), begin.elapsed().as_micros());
}

/// What hosts measure of an exchange: the quickest connection, and the whole.
fn exchanged(lab: &Lab) -> [Duration; 2] {
    let output = lab.host(HOST, "ha", "exchange").wait_with_output().expect("done");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    ["connect ", "exchange "].map(|word| {
        let after = text.split(word).nth(1).and_then(|rest| rest.split_whitespace().next());
        Duration::from_micros(after.and_then(|micros| micros.parse().ok()).expect("a number"))
    })
}

fn does(lab: &Lab, role: &str) {
    let output = lab.host(HOST, "ha", role).wait_with_output().expect("done");
    assert!(output.status.success(), "{role}: {}", String::from_utf8_lossy(&output.stderr));
}

/// None where there is no root or no nft.
fn lab() -> Option<Lab> {
    if std::process::Command::new("nft").arg("--version").output().is_err() {
        lab::skip("split mode needs nft, of nftables");
        return None;
    }
    Lab::new(NO_LOSS)
}

/// Another long link, which loses a part.
fn link(lab: &mut Lab, loss: f64) {
    lab.start_link(ONE_WAY_MS, Losses::random(loss));
}

fn start(lab: &mut Lab, part: &str) {
    let (peer, remote) = match part {
        "aa" => ("10.82.0.2", "10.82.2.0/24"),
        _ => ("10.82.0.1", "10.82.1.0/24"),
    };
    lab.start_appliance_with(part, part, peer, &["--mode", "split", "--remote", remote]);
}

fn wait_for_split(lab: &Lab) {
    for part in ["aa", "ab"] {
        lab.wait_until("connections are taken", |lab| {
            lab.status(part).pointer("/split/taking").is_some_and(|taking| taking == true)
        });
    }
}

fn end(child: &mut std::process::Child) {
    child.kill().expect("killed");
    child.wait().expect("gone");
}

#[test]
fn hosts_talk_to_somebody_near_and_what_they_say_arrives() {
    let Some(mut lab) = lab() else { return };
    link(&mut lab, 0.0);
    let mut server = lab.host(HOST, "hb", "receive-and-answer");
    let [connect_far, far] = exchanged(&lab);
    // The same with a link that loses, and appliances.
    link(&mut lab, 0.01);
    start(&mut lab, "aa");
    start(&mut lab, "ab");
    wait_for_split(&lab);
    let [connect_near, near] = exchanged(&lab);
    println!(
        "connecting took {connect_far:?}, in split mode {connect_near:?}; {far:?}, {near:?} in all"
    );
    // The near appliance accepted all six connections, and the far one made as many of its own.
    let finished = |lab: &Lab, part| lab.number(part, "/split/finished");
    lab.wait_until("all ended in order", |lab| {
        finished(lab, "aa") == 6 && finished(lab, "ab") == 6
    });
    for (part, made) in [("aa", "/split/accepted"), ("ab", "/split/opened")] {
        assert_eq!(lab.number(part, made), 6, "{}", lab.status(part));
        assert_eq!(lab.number(part, "/split/reset"), 0, "{}", lab.status(part));
        assert_eq!(lab.number(part, "/split/sent_bytes"), LEN as u64);
        assert_eq!(lab.number(part, "/split/received_bytes"), LEN as u64);
        // The trunks' own packets are protected: nothing else passes the link.
        assert!(lab.number(part, "/sent/packets") > LEN as u64 / 1_500, "{}", lab.status(part));
        assert_eq!(lab.number(part, "/sent/too_long"), 0, "{}", lab.status(part));
    }
    lab.wait_until("packets of trunks brought back", |lab| {
        lab.number("ab", "/received/recovered_injected") > 0
    });
    end(&mut server);
}

#[test]
fn resets_go_through_both_ways_and_a_killed_appliance_is_no_end() {
    let Some(mut lab) = lab() else { return };
    start(&mut lab, "aa");
    start(&mut lab, "ab");
    wait_for_split(&lab);
    // Nobody listens there.
    does(&lab, "expect-reset");
    let receiver = lab.host(HOST, "hb", "receive-a-reset");
    does(&lab, "reset");
    assert_eq!(lab::seen(&receiver.wait_with_output().expect("received")), 1);
    let mut server = lab.host(HOST, "hb", "receive-and-reset");
    does(&lab, "expect-reset");
    end(&mut server);
    lab.wait_until("three resets", |lab| lab.number("aa", "/split/reset") == 3);
    // Both ends of what an appliance kept when it was killed see that it did not end in order.
    for dead in ["aa", "ab"] {
        let before = lab.number("ab", "/split/opened");
        let receiver = lab.host(HOST, "hb", "receive-a-reset");
        let sender = lab.host(HOST, "ha", "expect-reset");
        lab.wait_until("a connection", |lab| lab.number("ab", "/split/opened") > before);
        lab.kill(dead);
        assert_eq!(lab::seen(&receiver.wait_with_output().expect("received")), 1);
        assert!(sender.wait_with_output().expect("done").status.success());
        // Its rules are still there, and take nothing: connections go from end to end.
        let mut server = lab.host(HOST, "hb", "receive-and-answer");
        let alive = if dead == "aa" { "ab" } else { "aa" };
        lab.wait_until("the other takes no more", |lab| {
            lab.status(alive).pointer("/split/taking").is_some_and(|taking| taking == false)
        });
        exchanged(&lab);
        start(&mut lab, dead);
        wait_for_split(&lab);
        let before = lab.number("aa", "/split/finished");
        exchanged(&lab);
        lab.wait_until("relayed again", |lab| lab.number("aa", "/split/finished") == before + 6);
        end(&mut server);
    }
    // In good order nothing is left.
    for part in ["aa", "ab"] {
        lab.down(part);
        let rules = lab.inside(part, "nft").args(["list", "tables"]).output().expect("nft");
        assert!(!String::from_utf8_lossy(&rules.stdout).contains("wellspring"), "{rules:?}");
        let rules = lab.inside(part, "ip").args(["rule"]).output().expect("ip");
        assert!(!String::from_utf8_lossy(&rules.stdout).contains("fwmark"), "{rules:?}");
    }
    let mut server = lab.host(HOST, "hb", "receive-and-answer");
    exchanged(&lab);
    end(&mut server);
}

#[test]
fn who_talks_to_a_host_that_does_not_listen_is_stopped() {
    let Some(mut lab) = lab() else { return };
    start(&mut lab, "aa");
    start(&mut lab, "ab");
    wait_for_split(&lab);
    let mut server = lab.host(HOST, "hb", "receive-nothing");
    let taken = lab::seen(&lab.host(HOST, "ha", "fill").wait_with_output().expect("done"));
    println!("{} MiB were taken from the host that talks", taken >> 20);
    // Two sockets a host, two a trunk, of a few MiB each.
    assert!(taken < MUCH as u64 / 4, "{taken}");
    assert!(lab.number("aa", "/split/sent_bytes") <= taken);
    // Others are none the worse for it.
    end(&mut server);
    let mut server = lab.host(HOST, "hb", "receive-and-answer");
    exchanged(&lab);
    end(&mut server);
}

#[test]
fn nobody_reaches_the_far_appliance_itself_in_its_own_name() {
    let Some(mut lab) = lab() else { return };
    start(&mut lab, "aa");
    start(&mut lab, "ab");
    wait_for_split(&lab);
    let mut server = lab.host(HOST, "ab", "receive-and-answer");
    does(&lab, "ask-the-router");
    lab.wait_until("reset", |lab| lab.number("ab", "/split/reset") == 1);
    assert_eq!(lab.number("ab", "/split/opened"), 0, "{:#}", lab.status("ab"));
    end(&mut server);
}

#[test]
fn split_set_ups_that_cannot_work_are_refused() {
    let Some(lab) = lab() else { return };
    let up = |more: &[&str]| {
        let (key, folder) = (lab.path("key"), lab.path(""));
        let mut command = lab.inside("aa", lab::WELLSPRING);
        command.args(["maelstrom", "up", "--lan", "lan", "--wan", "wan", "--peer", "10.82.0.2"]);
        command.args(["--key", &key, "--run-dir", &folder, "--mode", "split"]);
        let output = command.args(more).output().expect("run");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = up(&[]);
    assert!(text.contains("--remote 10.2.0.0/16"), "{text}");
    let failover = ["--failover-peer", "127.0.0.1:4801", "--failover-listen", "127.0.0.1:4802"];
    let text = up(&[&failover[..], &["--remote", "10.82.2.0/24"]].concat());
    assert!(text.contains("leave out --failover-peer"), "{text}");
}
