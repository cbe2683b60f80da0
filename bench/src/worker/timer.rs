//! A sleep that takes as long as it says. tokio's timer counts in whole milliseconds and rounds up, so a sleep of 1 ms takes
//! anything up to 2 ms there, and a ratio to what 1 ms allows would be one to the timer.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// Sleeps of one length, on a thread of their own.
#[derive(Debug, Clone)]
pub(super) struct Timer {
    length: Duration,
    queue: Arc<Queue>,
}

/// In the order in which they began, and so in which they end.
#[derive(Debug, Default)]
struct Queue {
    sleepers: Mutex<VecDeque<(Instant, oneshot::Sender<()>)>>,
    arrived: Condvar,
}

impl Timer {
    pub(super) fn of(length: Duration) -> Self {
        let queue = Arc::new(Queue::default());
        let theirs = Arc::clone(&queue);
        // It goes with the process.
        std::thread::spawn(move || theirs.serve());
        Self { length, queue }
    }

    pub(super) async fn sleep(&self) {
        if self.length.is_zero() {
            return;
        }
        let (wake, woken) = oneshot::channel();
        let first = {
            let mut sleepers = self.queue.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
            sleepers.push_back((Instant::now() + self.length, wake));
            sleepers.len() == 1
        };
        if first {
            self.queue.arrived.notify_one();
        }
        // It is always sent: the thread does not end.
        let _ = woken.await;
    }
}

impl Queue {
    fn serve(&self) {
        // The kernel may be late by 50 µs otherwise, which is much of 1 ms.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        loop {
            let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
            while sleepers.is_empty() {
                sleepers = self.arrived.wait(sleepers).unwrap_or_else(PoisonError::into_inner);
            }
            let now = Instant::now();
            let due = sleepers.partition_point(|(until, _)| *until <= now);
            let next = sleepers.get(due).map(|(until, _)| *until - now);
            let awake: Vec<_> = sleepers.drain(..due).collect();
            drop(sleepers);
            for (_, wake) in awake {
                // A handler that was cancelled does not wait any more.
                let _ = wake.send(());
            }
            if let Some(next) = next {
                std::thread::sleep(next);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_is_woken_early_and_everybody_is() {
        let length = Duration::from_millis(3);
        let timer = Timer::of(length);
        let sleepers = (0..200).map(|number| {
            let timer = timer.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(number % 7)).await;
                let began = Instant::now();
                timer.sleep().await;
                began.elapsed()
            })
        });
        for sleeper in sleepers.collect::<Vec<_>>() {
            assert!(sleeper.await.unwrap() >= length);
        }
    }

    #[test]
    fn no_sleep_at_all_waits_for_nothing() {
        let timer = Timer::of(Duration::ZERO);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(std::pin::pin!(timer.sleep()).poll(&mut context).is_ready());
    }
}
