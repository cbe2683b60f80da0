//! One process of a workload, as it sees itself.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use leastlock_testkit::process::{Child, hear};
use rustix::process::{Signal, getpid, kill_process, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::ground::{Addresses, Server};
use crate::record::Recorder;
use crate::workload;

/// What a process hears: begin nothing new; meet this signal at that point; forget about the point; the
/// clock is off by so much, stands still, goes on.
pub(crate) const DRAIN: &str = "drain";
pub(crate) const KILL_AT: &str = "kill-at ";
pub(crate) const STOP_AT: &str = "stop-at ";
pub(crate) const DISARM: &str = "disarm";
pub(crate) const CLOCK: &str = "clock-ms ";
pub(crate) const STAND: &str = "stand";
pub(crate) const GO: &str = "go";

/// What a process is told when it begins.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) workload: String,
    pub(crate) role: String,
    /// Its number among those of its role, from 0.
    pub(crate) number: u32,
    /// How often the process of this number was started before.
    pub(crate) incarnation: u32,
    /// Whether it is to begin nothing new from the start.
    pub(crate) is_draining: bool,
    pub(crate) seed: u64,
    pub(crate) mutant: Option<String>,
    /// The scenario's own name.
    pub(crate) name: String,
    pub(crate) addresses: Addresses,
    pub(crate) histories: PathBuf,
}

impl Task {
    /// What the process is called in histories.
    pub(crate) fn by(&self) -> String {
        format!("{}-{}-{}", self.role, self.number, self.incarnation)
    }

    /// Starts the process; it does not outlive the value.
    pub(crate) fn launch(&self) -> anyhow::Result<Child> {
        let mut command = Command::new(std::env::current_exe().context("this program has no path")?);
        command.arg("part").arg(serde_json::to_string(self)?);
        Ok(Child::spawn(command))
    }
}

/// One process of a workload.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) task: Task,
    pub(crate) recorder: Recorder,
    /// Cancelled when nothing new is to be begun.
    pub(crate) draining: CancellationToken,
    /// Cancelled when the process is to end.
    pub(crate) shutdown: CancellationToken,
    orders: Arc<Orders>,
}

impl Part {
    /// The address of a server, by way of this process's own network.
    pub(crate) fn address(&self, server: Server) -> anyhow::Result<&str> {
        self.task.addresses.get(&server).map(String::as_str).with_context(|| format!("{} is not in use", server.name()))
    }

    /// Whether this mistake is made on purpose.
    pub(crate) fn is_mutant(&self, mutant: &str) -> bool {
        self.task.mutant.as_deref() == Some(mutant)
    }

    /// Random numbers that no other process and no other incarnation has.
    pub(crate) fn rng(&self) -> fastrand::Rng {
        let Task { seed, role, number, incarnation, .. } = &self.task;
        let role = role.bytes().fold(0_u64, |hash, byte| hash.wrapping_mul(131).wrapping_add(u64::from(byte)));
        fastrand::Rng::with_seed(seed ^ role.rotate_left(32) ^ (u64::from(*number) << 20) ^ u64::from(*incarnation))
    }

    /// A place at which the process may be killed or stopped.
    pub(crate) fn point(&self, name: &str) {
        let mut ordered = self.orders.ordered.lock().unwrap_or_else(PoisonError::into_inner);
        if ordered.as_ref().is_some_and(|(_, point)| point == name) {
            let (signal, _) = ordered.take().expect("it is there");
            kill_process(getpid(), signal).expect("a process may signal itself");
            // The kernel may let this thread run on for a moment before all stand still.
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// By how much the process's clock is wrong.
    pub(crate) fn clock_offset_ms(&self) -> i64 {
        self.orders.clock_ms.load(Ordering::SeqCst)
    }

    /// Whether the process's clock stands still.
    pub(crate) fn clock_stands(&self) -> bool {
        self.orders.clock_stands.load(Ordering::SeqCst)
    }

    /// Waits, but no longer than until the end.
    pub(crate) async fn pause(&self, time: Duration) {
        self.shutdown.run_until_cancelled(tokio::time::sleep(time)).await;
    }
}

#[derive(Debug, Default)]
struct Orders {
    ordered: Mutex<Option<(Signal, String)>>,
    clock_ms: AtomicI64,
    clock_stands: AtomicBool,
}

impl Orders {
    fn order(&self, ordered: Option<(Signal, String)>) {
        *self.ordered.lock().unwrap_or_else(PoisonError::into_inner) = ordered;
    }
}

/// The child's part: until its standard input ends.
pub(crate) async fn play(task: &str) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let task: Task = serde_json::from_str(task)?;
    let workload = workload::named(&task.workload).context("no such workload")?;
    let recorder = Recorder::create(&task.histories, &task.by())?;
    let (draining, shutdown, orders) = (CancellationToken::new(), CancellationToken::new(), Arc::default());
    let part = Part { task, recorder, draining, shutdown, orders };
    // Told on its standard input it would have begun something before it heard.
    if part.task.is_draining {
        part.draining.cancel();
    }
    listen(part.clone());
    workload.play(part).await
}

/// Hears what the parent says, until that ends.
fn listen(part: Part) {
    std::thread::spawn(move || {
        while let Some(line) = hear() {
            let of = |order: &str| line.strip_prefix(order).map(str::to_owned);
            if line == DRAIN {
                part.draining.cancel();
            } else if line == STAND || line == GO {
                part.orders.clock_stands.store(line == STAND, Ordering::SeqCst);
            } else if line == DISARM {
                part.orders.order(None);
            } else if let Some(point) = of(KILL_AT) {
                part.orders.order(Some((Signal::KILL, point)));
            } else if let Some(point) = of(STOP_AT) {
                part.orders.order(Some((Signal::STOP, point)));
            } else if let Some(ms) = of(CLOCK) {
                part.orders.clock_ms.store(ms.parse().unwrap_or_default(), Ordering::SeqCst);
            }
        }
        part.draining.cancel();
        part.shutdown.cancel();
    });
}
