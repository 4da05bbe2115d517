//! Numbered datagrams, counted.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use crate::lab::{Lab, PATIENCE};

/// Counts datagrams until no more come.
pub fn receive_numbers(socket: &UdpSocket) {
    set_socket_recv_buffer_size_force(socket, 16 << 20).expect("root may");
    socket.set_read_timeout(Some(Duration::from_secs(2))).expect("set");
    println!("ready");
    let (mut seen, mut twice) = (BTreeSet::new(), 0);
    let begin = Instant::now();
    let mut buffer = [0; 64];
    loop {
        match socket.recv(&mut buffer) {
            Ok(len) => {
                let number = u64::from_be_bytes(buffer[..len].try_into().expect("eight"));
                twice += u64::from(!seen.insert(number));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) if seen.is_empty() && begin.elapsed() < PATIENCE / 4 => {}
            Err(_) => break,
        }
    }
    let odd = seen.iter().filter(|number| *number % 2 == 1).count();
    println!("seen {} odd {odd} twice {twice} ", seen.len());
}

/// All that were sent have been heard; twice only those that a repair overtook, as it may where this
/// process and the kernel's forwarding wait for different cores.
pub fn assert_heard(lab: &Lab, heard: &str, seen: u64, odd: u64) {
    let status = || format!("{heard}{:#}{:#}", lab.status("aa"), lab.status("ab"));
    assert!(heard.contains(&format!("seen {seen} odd {odd} twice ")), "{}", status());
    let twice = heard.split("twice ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let twice: u64 = twice.and_then(|number| number.parse().ok()).expect("a number");
    assert!(twice <= lab.number("ab", "/received/overtaken"), "{}", status());
}
