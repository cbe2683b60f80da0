//! The processes of a scenario, as their parent sees them.

use std::time::{Duration, Instant};

use anyhow::ensure;
use leastlock_testkit::process::Child;

use crate::ground::Ground;
use crate::network::Network;
use crate::part::{DISARM, DRAIN, Task};
use crate::workload::Workload;

/// How long a process stays away after it was killed.
const AWAY: Duration = Duration::from_millis(300);
/// How long a process that was told to end may take.
const END_LIMIT: Duration = Duration::from_secs(20);
/// A process that ends so often by itself within one run is broken.
const FAILURES_LIMIT: u32 = 20;

/// A process that is started again whenever it has ended.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) network: Network,
    task: Task,
    child: Option<Child>,
    back_at: Instant,
    /// How often it has ended though nobody killed it.
    failures: u32,
}

impl Member {
    async fn launch(mut task: Task, ground: &Ground) -> anyhow::Result<Self> {
        let network = Network::to(ground.addresses()).await?;
        task.addresses = network.addresses.clone();
        let child = Some(task.launch()?);
        Ok(Self { network, task, child, back_at: Instant::now(), failures: 0 })
    }

    /// What it is called in histories, whichever incarnation.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.task.role, self.task.number)
    }

    /// Whether histories call one of its incarnations so.
    pub(crate) fn is(&self, by: &str) -> bool {
        is_of(by, &self.name())
    }

    /// Starts it again if it is due.
    fn revive(&mut self) -> anyhow::Result<()> {
        if let Some(child) = &mut self.child
            && child.has_ended()
        {
            let status = child.wait(END_LIMIT);
            // Without a code it was killed.
            if status.code().is_some() {
                self.failures += 1;
                ensure!(self.failures < FAILURES_LIMIT, "a process ends again and again, {status}: {child:?}");
            }
            self.child = None;
            self.back_at = Instant::now() + AWAY;
        }
        if self.child.is_none() && Instant::now() >= self.back_at {
            self.task.incarnation += 1;
            self.child = Some(self.task.launch()?);
        }
        Ok(())
    }

    /// Kills it; answers whether it was there.
    pub(crate) fn kill(&mut self) -> bool {
        let Some(mut child) = self.child.take() else { return false };
        child.kill();
        self.back_at = Instant::now() + AWAY;
        true
    }

    /// Stops it; answers whether it was there.
    pub(crate) fn stop(&mut self) -> bool {
        self.alive().map(Child::stop).is_some()
    }

    /// Lets it go on, whatever it was told to meet.
    pub(crate) fn resume(&mut self) {
        self.tell(DISARM);
        if let Some(child) = self.alive() {
            child.resume();
        }
    }

    /// Says a line to it; answers whether it was there.
    pub(crate) fn tell(&mut self, line: &str) -> bool {
        self.alive().map(|child| child.send_line(line)).is_some()
    }

    fn alive(&mut self) -> Option<&mut Child> {
        let child = self.child.as_mut()?;
        if child.has_ended() { None } else { Some(child) }
    }
}

/// Whether `by` is an incarnation of the process `name`: it has a number behind the name.
pub(crate) fn is_of(by: &str, name: &str) -> bool {
    by.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
}

/// The processes of a scenario.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) members: Vec<Member>,
}

impl Fleet {
    /// Starts all.
    pub(crate) async fn launch(workload: &dyn Workload, ground: &Ground) -> anyhow::Result<Self> {
        let mut members = Vec::new();
        for role in workload.roles() {
            for number in 0..role.count {
                let task = Task {
                    workload: workload.name().to_owned(),
                    role: role.name.to_owned(),
                    number,
                    incarnation: 0,
                    is_draining: false,
                    seed: ground.seed,
                    mutant: ground.mutant.map(str::to_owned),
                    name: ground.name.clone(),
                    addresses: ground.addresses().clone(),
                    histories: ground.histories(),
                };
                members.push(Member::launch(task, ground).await?);
            }
        }
        Ok(Self { members })
    }

    /// Starts again those that are due.
    pub(crate) fn revive(&mut self) -> anyhow::Result<()> {
        self.members.iter_mut().try_for_each(Member::revive)
    }

    /// Ends all faults, and lets nobody begin anything new.
    pub(crate) fn drain(&mut self) {
        for member in &mut self.members {
            member.network.heal();
            member.resume();
            member.task.is_draining = true;
            member.tell(DRAIN);
        }
    }

    /// Lets go on who stopped itself after it was told not to.
    pub(crate) fn heal(&mut self) {
        self.members.iter_mut().for_each(Member::resume);
    }

    /// Ends all.
    pub(crate) fn end(&mut self) {
        for member in &mut self.members {
            if let Some(child) = &mut member.child {
                child.close_stdin();
            }
        }
        let deadline = Instant::now() + END_LIMIT;
        for member in &mut self.members {
            let Some(mut child) = member.child.take() else { continue };
            while !child.has_ended() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            // Dropped, it is killed.
        }
    }
}
