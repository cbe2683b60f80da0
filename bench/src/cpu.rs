//! Processor time of the database, as Linux tells it in `/proc` (proc(5), `/proc/pid/stat`, and the kernel's
//! `Documentation/scheduler/sched-stats.rst`, `/proc/pid/schedstat`).

use std::collections::HashMap;
use std::fs;

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

/// Whose processor time is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cpu {
    /// Nobody's: the server is elsewhere, or `/proc` does not tell.
    Unknown,
    /// This process's, with the engine inside.
    Own,
    /// The server's: this process and all that it has started, those that have ended included.
    Server(u32),
}

/// One process's line. Times are in clock ticks, cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// User and system time.
    own: u64,
    /// The same of its children that have ended and been waited for.
    of_children: u64,
    threads: u64,
}

impl Cpu {
    /// Seconds so far; only differences mean something.
    pub(crate) fn seconds(self) -> Option<f64> {
        match self {
            Self::Unknown => None,
            Self::Own => Some(seconds_of(std::process::id(), stat_of(std::process::id())?)),
            Self::Server(root) => {
                let processes = all_processes()?;
                let tree = tree_below(root, &processes)?;
                Some(tree.into_iter().map(|process| seconds_of(process, processes[&process])).sum())
            }
        }
    }

    /// What the figures are of.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Unknown => "n/a: the server's processes cannot be read from here",
            Self::Own => "of this process: the engine and the clients both",
            Self::Server(_) => "of the server's processes",
        }
    }
}

/// Processor time of this process, user and system, of all its threads, to the nanosecond.
#[expect(clippy::cast_precision_loss, reason = "the seconds of a process's life are far below 2^53")]
pub(crate) fn own_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The server of a PostgreSQL session, if it runs on this machine: the parent of the session's process. That the process is
/// that session, and not another one that happens to have its number, its title says, in which the database's name stands.
pub(crate) fn server_of_backend(backend: u32, database: &str) -> Option<u32> {
    let title = fs::read(format!("/proc/{backend}/cmdline")).ok()?;
    let is_it = title.starts_with(b"postgres") && title.windows(database.len()).any(|part| part == database.as_bytes());
    if is_it { Some(stat_of(backend)?.parent) } else { None }
}

/// The server that has written a file with its number, if it runs on this machine under one of these names.
pub(crate) fn server_of_pid_file(path: &str, names: &[&str]) -> Option<u32> {
    let pid = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    names.contains(&name.trim()).then_some(pid)
}

fn stat_of(process: u32) -> Option<Stat> {
    parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

fn all_processes() -> Option<HashMap<u32, Stat>> {
    let mut processes = HashMap::new();
    for entry in fs::read_dir("/proc").ok()? {
        let Some(process) = entry.ok().and_then(|entry| entry.file_name().to_str()?.parse().ok()) else { continue };
        // One that has ended meanwhile is counted by its parent.
        if let Some(stat) = stat_of(process) {
            processes.insert(process, stat);
        }
    }
    Some(processes)
}

fn tree_below(root: u32, processes: &HashMap<u32, Stat>) -> Option<Vec<u32>> {
    processes.get(&root)?;
    let (mut tree, mut next) = (vec![root], 0);
    while let Some(parent) = tree.get(next).copied() {
        tree.extend(processes.iter().filter(|(_, stat)| stat.parent == parent).map(|(process, _)| *process));
        next += 1;
    }
    Some(tree)
}

/// Of the process and its children that have ended. Ticks of 10 ms, cut off, are too coarse for hundreds of processes that
/// share a second, so the scheduler's nanoseconds count where it tells: of a process of one thread, and while it lives.
#[expect(clippy::cast_precision_loss, reason = "ticks and nanoseconds of a server's life are below 2^53")]
fn seconds_of(process: u32, stat: Stat) -> f64 {
    let tick = 1.0 / clock_ticks_per_second() as f64;
    let exact = if stat.threads == 1 { scheduled_ns(process) } else { None };
    let own = exact.map_or(stat.own as f64 * tick, |ns| ns as f64 / 1e9);
    own + stat.of_children as f64 * tick
}

fn scheduled_ns(process: u32) -> Option<u64> {
    fs::read_to_string(format!("/proc/{process}/schedstat")).ok()?.split_whitespace().next()?.parse().ok()
}

/// The name of the program stands in brackets and may have any character in it, so fields are counted from the last bracket.
fn parse(line: &str) -> Option<Stat> {
    let (_, fields) = line.rsplit_once(')')?;
    let fields: Vec<_> = fields.split_whitespace().collect();
    // The first is number 3.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let [parent, user, system, user_of_children, system_of_children, threads] = [4, 14, 15, 16, 17, 20].map(field);
    Some(Stat {
        parent: u32::try_from(parent?).ok()?,
        own: user? + system?,
        of_children: user_of_children? + system_of_children?,
        threads: threads?,
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_program_is_called() {
        let line = "17405 (post) gres 1 (x) S 17 17405 17405 0 -1 4194560 98 7 0 0 300 20 1000 4 20 0 2 0 990 0 0\n";
        assert_eq!(parse(line), Some(Stat { parent: 17, own: 320, of_children: 1004, threads: 2 }));
        assert_eq!(parse("1 (init) S 0"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_server_is_all_that_it_started_and_nothing_else() {
        let stat = |parent| Stat { parent, own: 0, of_children: 0, threads: 1 };
        let processes = [(1, stat(0)), (5, stat(1)), (6, stat(5)), (7, stat(6)), (8, stat(1))].into();
        assert_eq!(tree_below(5, &processes), Some(vec![5, 6, 7]));
        assert_eq!(tree_below(9, &processes), None);
    }

    #[test]
    fn children_that_have_ended_are_counted() {
        let second = clock_ticks_per_second();
        let stat = |of_children| Stat { parent: 1, own: second / 2, of_children, threads: 2 };
        assert!((seconds_of(0, stat(3 * second)) - 3.5).abs() < 1e-6);
        assert!((seconds_of(0, stat(0)) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn own_time_goes_on_while_this_process_works() {
        let before = Cpu::Own.seconds().unwrap();
        let deadline = Instant::now() + Duration::from_mins(1);
        while Cpu::Own.seconds().unwrap() < before + 0.03 {
            assert!(Instant::now() < deadline, "no processor time was counted");
        }
        assert_eq!(Cpu::Unknown.seconds(), None);
    }

    #[test]
    fn another_process_is_not_taken_for_the_server() {
        assert_eq!(server_of_backend(std::process::id(), "leastlock_test"), None);
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), format!("{}\n", std::process::id())).unwrap();
        let path = file.path().to_str().unwrap();
        assert_eq!(server_of_pid_file(path, &["mariadbd", "mysqld"]), None);
        let own = fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(server_of_pid_file(path, &[own.trim()]), Some(std::process::id()));
    }
}
