//! Marks of what drivers send.

use std::time::{Duration, Instant};

use wellspring_core::{Priority, SessionId};
use wellspring_driver::protocols::SendObject;
use wellspring_driver::socket::{ReceiveBatch, SocketConfig, UdpSocket};

use crate::common::{Bytes, WINDOW, Watch, config, start, to_one};

/// What no loopback should take: a guard, not a measure.
const GUARD: Duration = Duration::from_secs(30);

/// The DSCPs with which the symbols arrive that are sent unasked.
fn dscps(priority: Priority) -> Vec<u8> {
    let mut config = config();
    config.dscp.symbols = vec![40, 32, 24, 16, 8];
    let from = start(config);
    let receiver = SocketConfig::new("127.0.0.1:0".parse().expect("an address"));
    let receiver = UdpSocket::bind(&receiver).expect("loopback");
    let object = Bytes::random(1_000_000, 1);
    let (_sending, events) = Watch::new();
    let request = SendObject {
        session: SessionId(1),
        object: object.info(),
        digest: object.digest(),
        source: object,
        to: to_one(receiver.local_addr(), 0, 1),
        initial_window: WINDOW,
        resume: None,
        priority,
        key: None,
    };
    from.handle().send_object(request, events).expect("running");
    let (mut batch, mut came, began) = (ReceiveBatch::default(), Vec::new(), Instant::now());
    while came.len() < WINDOW.into() && began.elapsed() < GUARD {
        match receiver.receive(&mut batch) {
            Ok(_) => {
                let all = batch.iter().flat_map(|r| r.datagrams().map(move |_| r.dscp));
                came.extend(all);
            }
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    came
}

#[test]
fn symbols_of_the_background_have_the_lowest_class_s_dscp_and_others_the_highest_s_at_first() {
    for (priority, dscp) in
        [(Priority::Urgent, 40), (Priority::Normal, 40), (Priority::Background, 8)]
    {
        let came = dscps(priority);
        assert!(came.len() >= WINDOW.into(), "{priority}: {came:?}");
        assert!(came.iter().all(|came| *came == dscp), "{priority}: {came:?}");
    }
}
