use super::*;

fn window(k: u32, blocks: u32, open_limit: u32) -> BlockWindow {
    let object = ObjectInfo::new(u64::from(k * blocks) * 10, 10, k, 0);
    assert_eq!(object.source_blocks, blocks);
    BlockWindow::new(object, 2, 8, open_limit)
}

#[test]
fn a_lossless_block_needs_k_symbols_and_no_decoder() {
    let mut window = window(3, 2, 4);
    assert_eq!(window.next_wanting(Share::WHOLE, |_| true), Some((0, 3)));
    window.ask(0, 0, 3, true);
    assert_eq!(
        window.next_wanting(Share::WHOLE, |_| true),
        Some((1, 3)),
        "the next block is opened early"
    );
    for esi in [2, 0] {
        window.settle(0);
        assert_eq!(window.receive(0, esi), Intake::Kept);
    }
    assert_eq!(window.receive(0, 0), Intake::Redundant, "a duplicate");
    window.settle(0);
    assert_eq!(window.receive(0, 1), Intake::Finishable { decode: false });
    assert_eq!(window.finished(0), Some(false));
    assert_eq!((window.floor(), window.horizon()), (1, 2));
    assert_eq!(window.receive(0, 5), Intake::Redundant);
    assert!(!window.all_complete());
}

#[test]
fn loss_raises_the_target_to_k_plus_2_and_failure_by_1() {
    let mut window = window(3, 1, 4);
    window.next_wanting(Share::WHOLE, |_| true);
    window.ask(0, 0, 3, true);
    window.settle(0);
    window.note_loss(0);
    assert_eq!(
        window.next_wanting(Share::WHOLE, |_| true),
        Some((0, 3)),
        "the lost one and two more"
    );
    window.ask(0, 0, 3, true);
    for esi in [0, 1, 3, 4] {
        window.settle(0);
        assert_eq!(window.receive(0, esi), Intake::Kept);
    }
    window.settle(0);
    assert_eq!(window.receive(0, 7), Intake::Finishable { decode: true });
    assert!(window.need_more(0, 1));
    assert_eq!(window.next_wanting(Share::WHOLE, |_| true), Some((0, 1)));
    window.ask(0, 0, 1, true);
    window.settle(0);
    assert_eq!(window.receive(0, 9), Intake::Finishable { decode: true });
    assert_eq!(window.finished(0), Some(true));
    assert!(window.all_complete());
}

#[test]
fn all_source_symbols_finish_a_block_whatever_the_target() {
    let mut window = window(2, 1, 4);
    window.next_wanting(Share::WHOLE, |_| true);
    window.note_loss(0);
    assert_eq!(window.receive(0, 0), Intake::Kept);
    assert_eq!(window.receive(0, 1), Intake::Finishable { decode: false });
}

#[test]
fn open_blocks_are_bounded_until_they_are_handed_over() {
    let mut window = window(1, 5, 2);
    for sbn in 0..2 {
        assert_eq!(window.next_wanting(Share::WHOLE, |_| true), Some((sbn, 1)));
        window.ask(sbn, 0, 1, true);
    }
    assert_eq!(window.next_wanting(Share::WHOLE, |_| true), None);
    assert!(!window.wants());
    window.settle(0);
    assert_eq!(window.receive(0, 0), Intake::Finishable { decode: false });
    assert_eq!(window.next_wanting(Share::WHOLE, |_| true), None, "still open: not handed over");
    window.finished(0);
    assert_eq!(window.next_wanting(Share::WHOLE, |_| true), Some((2, 1)));
}

/// Symbols that a block of K symbols has at each attempt to decode it, if all of them fail for want of one
/// more. Symbols beyond K are taken from `first_esi` on.
fn failing_attempts(window: &mut BlockWindow, first_esi: u32) -> Vec<u32> {
    let mut attempts = Vec::new();
    for esi in first_esi.. {
        if let Intake::Finishable { decode: true } = window.receive(0, esi) {
            attempts.push(window.open(0).received);
            if !window.need_more(0, 1) {
                return attempts;
            }
        }
    }
    unreachable!("a block has a bound")
}

#[test]
fn a_block_that_never_decodes_is_given_up_after_a_few_attempts() {
    for (k, extra) in [(1, 8), (10, 64), (1_000, 64), (1_000, 2_000)] {
        let object = ObjectInfo::new(u64::from(k) * 10, 10, k, 0);
        let mut window = BlockWindow::new(object, 2, extra, 1);
        window.next_wanting(Share::WHOLE, |_| true);
        let attempts = failing_attempts(&mut window, k);
        assert_eq!(attempts[..3], [k, k + 1, k + 2], "failures by chance are overcome at once");
        assert_eq!(attempts.last(), Some(&(k + extra)), "{attempts:?}");
        // Three, twice as much more before each of the others, and the last.
        let most = 3 + extra.ilog2() as usize + 2;
        assert!(attempts.len() <= most, "{attempts:?}");
    }
}

#[test]
fn a_block_with_wrong_bytes_takes_a_few_attempts_too() {
    let k = 1_000;
    let mut window = window(k, 1, 4);
    window.next_wanting(Share::WHOLE, |_| true);
    (0..k).for_each(|esi| {
        window.receive(0, esi);
    });
    assert!(window.wrong(0, 1));
    let attempts = failing_attempts(&mut window, k);
    assert_eq!(attempts.last(), Some(&(10 * k + 8)));
    assert!(attempts.len() < 20, "{attempts:?}");
}

#[test]
fn as_many_more_are_awaited_as_the_decoder_says() {
    let mut window = window(100, 1, 4);
    window.next_wanting(Share::WHOLE, |_| true);
    (1..=100).for_each(|esi| {
        window.receive(0, esi);
    });
    assert!(window.need_more(0, 6));
    assert_eq!(window.open(0).deficit(), 6);
    (101..=106).for_each(|esi| {
        window.receive(0, esi);
    });
    // Two more is all there may be: the last attempt is made with these.
    assert!(window.need_more(0, 6));
    assert_eq!(window.open(0).deficit(), 2);
    assert_eq!(window.receive(0, 107), Intake::Kept);
    assert_eq!(window.receive(0, 108), Intake::Finishable { decode: true });
    assert!(!window.need_more(0, 6));
}

#[test]
fn blocks_that_are_there_are_passed_over() {
    let mut window = window(2, 9, 4);
    window.set_complete(&[0..2, 3..5, 8..9]);
    assert_eq!((window.floor(), window.horizon()), (2, 2));
    let mut wanted = Vec::new();
    while let Some((sbn, count)) = window.next_wanting(Share::WHOLE, |_| true) {
        assert_ne!(window.receive(3, 0), Intake::Kept, "complete, or not open yet");
        window.ask(sbn, 0, count, true);
        wanted.push(sbn);
        for esi in 0..2 {
            window.settle(sbn);
            window.receive(sbn, esi);
        }
        window.finished(sbn);
    }
    assert_eq!(wanted, [2, 5, 6, 7]);
    assert!(window.all_complete());
}

#[test]
fn a_block_with_wrong_bytes_is_decoded_again_from_more_symbols() {
    let mut window = window(3, 1, 4);
    window.next_wanting(Share::WHOLE, |_| true);
    window.ask(0, 0, 3, true);
    for esi in 0..2 {
        window.settle(0);
        window.receive(0, esi);
    }
    window.settle(0);
    assert_eq!(window.receive(0, 2), Intake::Finishable { decode: false });
    assert!(window.wrong(0, 2));
    assert_eq!(window.next_wanting(Share::WHOLE, |_| true), Some((0, 2)));
    assert_eq!(window.receive(0, 3), Intake::Kept);
    assert_eq!(window.receive(0, 4), Intake::Finishable { decode: true });
    assert!(window.wrong(0, 2));
    window.receive(0, 5);
    assert_eq!(window.receive(0, 6), Intake::Finishable { decode: true });
    assert!(!window.wrong(0, 100), "no more than a few times K");
    assert!(!window.wrong(0, 1), "not being finished");
}

#[test]
fn of_a_block_with_wrong_bytes_nine_times_k_symbols_are_taken_and_no_more_than_ten() {
    let k = 10;
    let mut window = window(k, 1, 4);
    window.next_wanting(Share::WHOLE, |_| true);
    let mut take = |first: u32, last: u32| {
        (first..last).map(|esi| window.receive(0, esi)).last().expect("some");
        window.wrong(0, k + 1)
    };
    let ends: Vec<bool> = (0..11).map(|n| take(n * (k + 1), (n + 1) * (k + 1))).collect();
    assert!(ends[..8].iter().all(|goes_on| *goes_on), "{ends:?}");
    assert!(!ends[10], "{ends:?}");
}

#[test]
fn each_sender_is_asked_for_its_share_of_the_source_first() {
    let mut window = window(4, 40, 64);
    let share = |index| Share { index, count: 2 };
    assert_eq!(window.next_wanting(share(0), |_| true), Some((0, 2)));
    window.ask(0, 0, 2, true);
    assert_eq!(window.next_wanting(share(0), |_| true), Some((1, 2)), "ahead of the other");
    window.ask(1, 0, 2, true);
    assert_eq!(window.next_wanting(share(1), |_| true), Some((0, 2)));
    assert_eq!(window.next_wanting(share(0), |i| i == 0), Some((0, 2)), "the other is gone");
    for sbn in 2..64 / AHEAD {
        assert_eq!(window.next_wanting(share(0), |_| true), Some((sbn, 2)));
        window.ask(sbn, 0, 2, true);
    }
    assert_eq!(window.next_wanting(share(0), |_| true), Some((0, 2)), "far enough ahead");
}

#[test]
fn what_was_lost_is_repaired_by_whoever_has_room() {
    let mut window = window(4, 9, 64);
    let share = |index| Share { index, count: 2 };
    for index in 0..2 {
        window.next_wanting(share(index), |_| true);
        window.ask(0, index, 2, true);
    }
    window.settle(0);
    window.note_loss(0);
    assert_eq!(window.next_wanting(share(1), |_| true), Some((0, 3)), "one lost, K + 2");
    window.ask(0, 1, 3, true);
    window.forget_share(0);
    assert_eq!(window.next_wanting(share(0), |_| true), Some((1, 2)), "opened later");
}
