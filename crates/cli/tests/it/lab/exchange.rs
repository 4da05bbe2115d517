//! Bytes to a host that answers each with its complement.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

/// Sends so many, and sees them come back.
pub fn there_and_back(mut stream: TcpStream, len: usize) {
    let bytes: Vec<u8> =
        (0..len as u64).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
    let mut answer = Vec::new();
    stream.write_all(&bytes).expect("taken");
    stream.shutdown(Shutdown::Write).expect("said");
    stream.read_to_end(&mut answer).expect("an answer to the end");
    assert!(answer.iter().map(|byte| !*byte).eq(bytes), "{} bytes, not as they were", answer.len());
}
