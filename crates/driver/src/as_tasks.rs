//! Event loop and workers as tasks of a simulated machine.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::event_loop::EventLoop;
use crate::payload::worker::Worker;
use crate::simulation::{Machine, pause};
use crate::socket::ReceiveBatch;

/// What timers of the runtime tell apart: a deadline that is nearer would be waited for in vain.
const TICK: Duration = Duration::from_millis(1);

impl EventLoop {
    /// [`run`](Self::run), which waits as tasks do.
    pub(crate) async fn run_as_task(mut self) {
        let waker = self.waiter.waker();
        let mut batch = ReceiveBatch::of_virtual_socket();
        while !self.stopping {
            self.inlets.groups.mark_all_readable();
            self.host.network.ports.mark_all_readable();
            let has_more = self.turn(&mut batch);
            match self.time_left() {
                _ if self.stopping => {}
                _ if has_more => tokio::task::yield_now().await,
                // Either is a reason for the next turn.
                Some(span) => {
                    let _ = tokio::time::timeout(span.max(TICK), waker.woken()).await;
                }
                None => waker.woken().await,
            }
        }
        self.stop_sessions();
        self.collect_done();
        while self.has_unfinished() {
            waker.woken().await;
            self.collect_done();
        }
        self.refuse_calls();
    }
}

impl Worker {
    /// Works until the pool is gone. `left` tells of jobs.
    pub(crate) async fn run_as_task(mut self, machine: Arc<dyn Machine>, left: Arc<Notify>) {
        loop {
            match self.jobs.try_recv() {
                Ok((key, job)) => {
                    pause(machine.work_time()).await;
                    let done = self.work(job);
                    if self.done.send((key, done)).is_err() {
                        return;
                    }
                    self.waker.wake();
                }
                Err(error) if error.is_disconnected() => return,
                Err(_) => left.notified().await,
            }
        }
    }
}
