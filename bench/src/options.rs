//! What the command line says.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use leastlock_core::Engine;

use crate::idempotency::Part;
use crate::lease;
use crate::outbox;
use crate::stock::{Contender, Scene};
use crate::worker::{self, Protocol};

/// Fewer rounds make no median worth quoting.
const QUOTABLE_ROUNDS: u32 = 5;

/// What is measured.
#[derive(Debug, Subcommand)]
pub(crate) enum Scenario {
    /// Units taken from hot and from cold rows, in every way there is: conditional UPDATE, version column, row lock, combiner.
    Stock(StockOptions),
    /// Idempotency keys: what a key, a phased step and the HTTP layer cost over the bare transaction.
    Idempotency(IdempotencyOptions),
    /// Events from a database to Kafka: leastlock's relay, a hand-written loop, and the producer alone.
    Outbox(OutboxOptions),
    /// Records from Kafka to handlers: leastlock's worker, a hand-written loop, and polling alone.
    Worker(WorkerOptions),
    /// Leases: acquire and release against the two commands by hand, on keys of one's own and on one key that all want.
    Lease(LeaseOptions),
}

impl Scenario {
    /// The options that every scenario has.
    pub(crate) const fn options(&self) -> &Options {
        match self {
            Self::Stock(stock) => &stock.common,
            Self::Idempotency(idempotency) => &idempotency.common,
            Self::Outbox(outbox) => &outbox.common,
            Self::Worker(worker) => &worker.common,
            Self::Lease(lease) => &lease.common,
        }
    }

    /// What is left to the scenario is filled in. The parts of `idempotency` have each their own numbers of clients.
    pub(crate) fn with_defaults(mut self) -> Self {
        if let Self::Stock(StockOptions { common, .. }) = &mut self {
            *common = common.with_clients(&[1, 16, 64, 256]);
        }
        self
    }
}

/// The options of `stock`.
#[derive(Debug, Clone, Args)]
pub(crate) struct StockOptions {
    /// Which rows are written; a list [default: all].
    #[arg(long = "scenario", visible_alias = "scene", value_name = "LIST", value_delimiter = ',')]
    pub(crate) scenes: Vec<Scene>,

    /// Which contenders run; a list [default: all that are right].
    #[arg(long = "contender", value_name = "LIST", value_delimiter = ',')]
    pub(crate) contenders: Vec<Contender>,

    #[command(flatten)]
    pub(crate) common: Options,
}

/// The options of `idempotency`.
#[derive(Debug, Clone, Args)]
pub(crate) struct IdempotencyOptions {
    /// What is measured; a list [default: all].
    #[arg(long = "part", value_name = "LIST", value_delimiter = ',')]
    pub(crate) parts: Vec<Part>,

    #[command(flatten)]
    pub(crate) common: Options,
}

/// The options of `outbox`.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("clients", |clients| clients.hide(true)))]
pub(crate) struct OutboxOptions {
    /// What is measured; a list [default: all].
    #[arg(long = "part", value_name = "LIST", value_delimiter = ',')]
    pub(crate) parts: Vec<outbox::Part>,

    /// Which contenders run; a list [default: all].
    #[arg(long = "contender", value_name = "LIST", value_delimiter = ',')]
    pub(crate) contenders: Vec<outbox::Way>,

    /// Kafka brokers; topics are made there and deleted at the end [default: `LEASTLOCK_KAFKA_BROKERS`].
    #[arg(long, value_name = "ADDRESSES")]
    pub(crate) brokers: Option<String>,

    /// How many events; a list, of which `crash` takes the first.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "100000", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) events: Vec<u64>,

    /// Bytes of an event's value; a list, of which `latency` takes the first.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "200,1024")]
    pub(crate) bytes: Vec<usize>,

    /// Events of a pass of the hand-written loop.
    #[arg(long, value_name = "N", default_value_t = outbox::BATCH, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) batch: u32,

    /// The relay's `page` [default: the library's].
    #[arg(long, value_name = "N")]
    pub(crate) page: Option<u32>,

    /// The relay's `in_flight` [default: the library's].
    #[arg(long, value_name = "N")]
    pub(crate) in_flight: Option<u32>,

    /// `latency`, `soak`: transactions a second.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: u32,

    /// `latency`: leave out the search for the highest steady rate, and that rate.
    #[arg(long)]
    pub(crate) no_search: bool,

    /// `crash`: the relay's lease.
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    pub(crate) lease: Duration,

    /// `soak`: how long, each contender; record mode and then batch mode unless one is named.
    #[arg(long, value_name = "N", default_value = "10", value_parser = minutes)]
    pub(crate) minutes: Duration,

    #[command(flatten)]
    pub(crate) common: Options,
}

/// The options of `worker`.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("clients", |clients| clients.hide(true)))]
#[command(mut_arg("sqlite", |sqlite| sqlite.hide(true)))]
pub(crate) struct WorkerOptions {
    /// What is measured; a list [default: all but `soak`].
    #[arg(long = "part", value_name = "LIST", value_delimiter = ',')]
    pub(crate) parts: Vec<worker::Part>,

    /// Which contenders run; a list [default: all].
    #[arg(long = "contender", value_name = "LIST", value_delimiter = ',')]
    pub(crate) contenders: Vec<worker::Way>,

    /// Kafka brokers of `row` and `soak`; topics are made there and deleted at the end [default: `LEASTLOCK_KAFKA_BROKERS`].
    #[arg(long, value_name = "ADDRESSES")]
    pub(crate) brokers: Option<String>,

    /// The other parts there too, instead of on librdkafka's mock cluster.
    #[arg(long)]
    pub(crate) real: bool,

    /// Records of a topic: a turn ends with the last one, or with its time.
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) records: u64,

    /// Bytes of a record's value.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) bytes: usize,

    /// `sleep`: how long a handler sleeps, in milliseconds; a list.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0,1,5", value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub(crate) sleep_ms: Vec<u64>,

    /// `sleep`: how many keys there are; a list.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,100,1000,10000", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) keys: Vec<u64>,

    /// `sleep`, `poll`: how many partitions; a list.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,8", value_parser = clap::value_parser!(i32).range(1..=100))]
    pub(crate) partitions: Vec<i32>,

    /// `sleep`: how many handlers run at a time; a list.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "16,100,1000")]
    pub(crate) concurrency: Vec<usize>,

    /// The worker's limit of records of a partition [default: the library's].
    #[arg(long, value_name = "N")]
    pub(crate) held: Option<usize>,

    /// `blocked`: how long keys stand still.
    #[arg(long, value_name = "S", default_value = "15", value_parser = seconds)]
    pub(crate) blocked: Duration,

    /// `soak`: records a second.
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rate: u32,

    /// `soak`: how long.
    #[arg(long, value_name = "N", default_value = "10", value_parser = minutes)]
    pub(crate) minutes: Duration,

    /// `soak`: how the members of the group share partitions.
    #[arg(long, value_name = "HOW", default_value = "eager")]
    pub(crate) protocol: Protocol,

    #[command(flatten)]
    pub(crate) common: Options,
}

/// The options of `lease`.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("database", |database| database.hide(true)))]
#[command(mut_arg("sqlite", |sqlite| sqlite.hide(true)))]
pub(crate) struct LeaseOptions {
    /// What is measured; a list [default: `own` and `one`].
    #[arg(long = "part", value_name = "LIST", value_delimiter = ',')]
    pub(crate) parts: Vec<lease::Part>,

    /// Where the locks are; a list [default: all whose server the environment names].
    #[arg(long = "backend", value_name = "LIST", value_delimiter = ',')]
    pub(crate) backends: Vec<lease::Backend>,

    /// Which contenders run; a list [default: all].
    #[arg(long = "contender", value_name = "LIST", value_delimiter = ',')]
    pub(crate) contenders: Vec<lease::Way>,

    /// `pauses`, `cuts`: how many on each backend, and a fifth of it for the double [default: 300 pauses, 100 cuts].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) faults: Option<u32>,

    /// `pauses`, `cuts`: how many pairs of holders side by side, of which each meets its part.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) pairs: u32,

    /// `pauses`, `cuts`: the TTL of the leases. The servers have none below 2 s.
    #[arg(long, value_name = "S", default_value = "3", value_parser = seconds)]
    pub(crate) ttl: Duration,

    #[command(flatten)]
    pub(crate) common: Options,
}

/// The options that every scenario has.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Server to make a database on, which is dropped at the end: postgres://… or mysql://… Without it, the PostgreSQL
    /// server that `LEASTLOCK_POSTGRES_URL` names.
    #[arg(long, value_name = "URL", value_parser = server_url)]
    pub(crate) database: Option<String>,

    /// Use a temporary SQLite file instead.
    #[arg(long, conflicts_with = "database")]
    pub(crate) sqlite: bool,

    /// How many clients run at once; a list [default: for `stock` 1,16,64,256, for `idempotency` and `lease` 1,16 and for the
    /// part `keys` 64 as well].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) clients: Vec<u32>,

    /// Rounds that count, after one of warm-up; below 5 the medians are not to be quoted.
    #[arg(long, value_name = "N", default_value_t = QUOTABLE_ROUNDS, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,

    /// How long each contender is measured in a round.
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    pub(crate) seconds: Duration,

    /// Seed of the random choices [default: random, printed].
    #[arg(long, value_name = "N", default_value_t = fastrand::u64(..=u64::from(u32::MAX)), hide_default_value = true)]
    pub(crate) seed: u64,

    /// Folder for the plot, the rounds as CSV, and the report as JSON.
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub(crate) out: PathBuf,

    /// Print the table as Markdown, with the command that makes it.
    #[arg(long)]
    pub(crate) markdown: bool,
}

impl StockOptions {
    /// The command line that repeats the run, without the server's address.
    pub(crate) fn command(&self) -> String {
        let mut command = self.common.command("stock");
        add_list(&mut command, "scenario", &names(&self.scenes));
        add_list(&mut command, "contender", &names(&self.contenders));
        command
    }
}

impl IdempotencyOptions {
    /// The command line that repeats the run, without the server's address.
    pub(crate) fn command(&self) -> String {
        let mut command = self.common.command("idempotency");
        add_list(&mut command, "part", &names(&self.parts));
        command
    }
}

impl OutboxOptions {
    /// The command line that repeats the run, without the servers' addresses.
    pub(crate) fn command(&self) -> String {
        let mut command = self.common.command("outbox");
        add_list(&mut command, "part", &names(&self.parts));
        add_list(&mut command, "contender", &names(&self.contenders));
        add_list(&mut command, "events", &listed(&self.events));
        add_list(&mut command, "bytes", &listed(&self.bytes));
        let (batch, rate, lease) = (self.batch, self.rate, self.lease.as_secs_f64());
        let minutes = self.minutes.as_secs_f64() / 60.0;
        add_list(&mut command, "page", &self.page.map_or(String::new(), |page| page.to_string()));
        add_list(&mut command, "in-flight", &self.in_flight.map_or(String::new(), |events| events.to_string()));
        // Writing into a string cannot fail.
        let _ = write!(command, " --batch {batch} --rate {rate} --lease {lease} --minutes {minutes}");
        if self.no_search {
            command.push_str(" --no-search");
        }
        command
    }

    /// Those of the contenders `all` that run.
    pub(crate) fn running(&self, all: &[outbox::Way]) -> Vec<outbox::Way> {
        all.iter().copied().filter(|way| self.contenders.is_empty() || self.contenders.contains(way)).collect()
    }

    /// Whether the highest steady rate is looked for.
    pub(crate) const fn searches_rate(&self) -> bool {
        !self.no_search
    }
}

impl WorkerOptions {
    /// The command line that repeats the run, without the servers' addresses.
    pub(crate) fn command(&self) -> String {
        let mut command = self.common.command("worker");
        add_list(&mut command, "part", &names(&self.parts));
        add_list(&mut command, "contender", &names(&self.contenders));
        add_list(&mut command, "sleep-ms", &listed(&self.sleep_ms));
        add_list(&mut command, "keys", &listed(&self.keys));
        add_list(&mut command, "partitions", &listed(&self.partitions));
        add_list(&mut command, "concurrency", &listed(&self.concurrency));
        add_list(&mut command, "held", &self.held.map_or(String::new(), |held| held.to_string()));
        let Self { records, bytes, blocked, rate, minutes, protocol, .. } = self;
        let (blocked, minutes) = (blocked.as_secs_f64(), minutes.as_secs_f64() / 60.0);
        // Writing into a string cannot fail.
        let _ = write!(command, " --records {records} --bytes {bytes} --blocked {blocked}");
        let _ = write!(command, " --rate {rate} --minutes {minutes} --protocol {}", names(&[*protocol]));
        if self.real {
            command.push_str(" --real");
        }
        command
    }

    /// Those of the contenders `all` that run.
    pub(crate) fn running(&self, all: &[worker::Way]) -> Vec<worker::Way> {
        all.iter().copied().filter(|way| self.contenders.is_empty() || self.contenders.contains(way)).collect()
    }
}

impl LeaseOptions {
    /// The command line that repeats the run, without the servers' addresses.
    pub(crate) fn command(&self) -> String {
        let mut command = self.common.command("lease");
        add_list(&mut command, "part", &names(&self.parts));
        add_list(&mut command, "backend", &names(&self.backends));
        add_list(&mut command, "contender", &names(&self.contenders));
        if self.parts.iter().any(|part| !part.measures()) {
            add_list(&mut command, "faults", &self.faults.map_or(String::new(), |faults| faults.to_string()));
            // Writing into a string cannot fail.
            let _ = write!(command, " --pairs {} --ttl {}", self.pairs, self.ttl.as_secs_f64());
        }
        command
    }

    /// Those of the contenders `all` that run.
    pub(crate) fn running(&self, all: &[lease::Way]) -> Vec<lease::Way> {
        all.iter().copied().filter(|way| self.contenders.is_empty() || self.contenders.contains(way)).collect()
    }
}

impl Options {
    /// The command line that repeats the run, without the server's address.
    pub(crate) fn command(&self, scenario: &str) -> String {
        let clients: Vec<_> = self.clients.iter().map(ToString::to_string).collect();
        let (rounds, seconds, seed) = (self.rounds, self.seconds.as_secs_f64(), self.seed);
        let mut command = format!("cargo run --release -p leastlock-bench -- {scenario}");
        command.push_str(match self.engine() {
            Engine::Sqlite => " --sqlite",
            Engine::MySql => " --database \"$LEASTLOCK_MYSQL_URL\"",
            _ => "",
        });
        add_list(&mut command, "clients", &clients.join(","));
        // Writing into a string cannot fail.
        let _ = write!(command, " --rounds {rounds} --seconds {seconds} --seed {seed}");
        command
    }

    /// The same, with these numbers of clients if none are named.
    pub(crate) fn with_clients(&self, clients: &[u32]) -> Self {
        let clients = if self.clients.is_empty() { clients.to_vec() } else { self.clients.clone() };
        Self { clients, ..self.clone() }
    }

    /// The engine that was chosen.
    pub(crate) fn engine(&self) -> Engine {
        match &self.database {
            _ if self.sqlite => Engine::Sqlite,
            Some(url) if url.starts_with("mysql://") => Engine::MySql,
            _ => Engine::Postgres,
        }
    }

    /// Whether the medians may be quoted.
    pub(crate) const fn is_quotable(&self) -> bool {
        self.rounds >= QUOTABLE_ROUNDS
    }
}

/// All, unless some are named. The order is always the same: a contender's turn follows that of its base.
pub(crate) fn chosen<T: ValueEnum + PartialEq>(named: &[T]) -> Vec<T> {
    T::value_variants().iter().filter(|one| named.is_empty() || named.contains(one)).cloned().collect()
}

fn add_list(command: &mut String, flag: &str, list: &str) {
    if !list.is_empty() {
        // Writing into a string cannot fail.
        let _ = write!(command, " --{flag} {list}");
    }
}

fn listed(numbers: &[impl ToString]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn names<T: ValueEnum>(values: &[T]) -> String {
    let names = values.iter().filter_map(|value| Some(value.to_possible_value()?.get_name().to_owned()));
    names.collect::<Vec<_>>().join(",")
}

fn server_url(text: &str) -> Result<String, String> {
    let known = ["postgres://", "postgresql://", "mysql://"];
    if known.iter().any(|scheme| text.starts_with(scheme)) {
        return Ok(text.to_owned());
    }
    Err("must begin with postgres:// or mysql://; for SQLite use --sqlite".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if !(0.01..=600.0).contains(&seconds) {
        return Err("must be from 0.01 to 600".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if !(0.1..=1440.0).contains(&minutes) {
        return Err("must be from 0.1 to 1440".to_owned());
    }
    Ok(Duration::from_secs_f64(60.0 * minutes))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(subcommand)]
        scenario: Scenario,
    }

    fn stock(arguments: &[&str]) -> StockOptions {
        let line = Line::parse_from(["bench", "stock"].iter().chain(arguments));
        let Scenario::Stock(options) = line.scenario.with_defaults() else { panic!("another scenario") };
        options
    }

    fn idempotency(arguments: &[&str]) -> IdempotencyOptions {
        let line = Line::parse_from(["bench", "idempotency"].iter().chain(arguments));
        let Scenario::Idempotency(options) = line.scenario.with_defaults() else { panic!("another scenario") };
        options
    }

    #[test]
    fn the_printed_command_means_the_same_run() {
        let command = stock(&[
            "--sqlite",
            "--clients",
            "2,8",
            "--rounds",
            "7",
            "--seconds",
            "0.5",
            "--seed",
            "9",
            "--scenario",
            "hot-row,cold-rows",
            "--contender",
            "update,guarded",
        ])
        .command();
        let (_, arguments) = command.split_once(" -- stock ").unwrap();
        let again = stock(&arguments.split(' ').collect::<Vec<_>>());
        assert_eq!(again.command(), command);
        assert_eq!(again.common.clients, [2, 8]);
        assert_eq!(again.scenes, [Scene::HotRow, Scene::ColdRows]);
        assert_eq!(again.contenders, [Contender::Update, Contender::Guarded]);
    }

    #[test]
    fn the_printed_command_names_the_parts() {
        let command = idempotency(&["--part", "phased,keys", "--seed", "9"]).command();
        assert!(command.ends_with("-- idempotency --rounds 5 --seconds 2 --seed 9 --part phased,keys"), "{command}");
        assert_eq!(chosen(&idempotency(&["--part", "phased,keys"]).parts), [Part::Keys, Part::Phased]);
    }

    #[test]
    fn the_printed_command_of_outbox_means_the_same_run() {
        let outbox = |arguments: &[&str]| {
            let line = Line::parse_from(["bench", "outbox"].iter().chain(arguments));
            let Scenario::Outbox(options) = line.scenario.with_defaults() else { panic!("another scenario") };
            options
        };
        let arguments = "--part crash,drain --contender relay,loop --page 50 --in-flight 900 --events 10,1000 --bytes 200 --batch 7 --rate 9 --lease 1.5 --no-search --seed 3";
        let options = outbox(&arguments.split(' ').collect::<Vec<_>>());
        let command = options.command();
        let (_, arguments) = command.split_once(" -- outbox ").unwrap();
        let again = outbox(&arguments.split(' ').collect::<Vec<_>>());
        assert_eq!(again.command(), command);
        assert_eq!((&again.events[..], &again.bytes[..], again.batch), (&[10, 1000][..], &[200][..], 7));
        assert_eq!((again.page, again.in_flight), (Some(50), Some(900)));
        assert_eq!(again.running(&[outbox::Way::Loop, outbox::Way::Produce]), [outbox::Way::Loop]);
        assert_eq!((again.rate, again.lease.as_millis(), again.no_search), (9, 1500, true));
        assert_eq!(chosen(&again.parts), [outbox::Part::Drain, outbox::Part::Crash]);
        assert_eq!(outbox(&["--seed", "3"]).events, [100_000]);
    }

    #[test]
    fn the_printed_command_of_worker_means_the_same_run() {
        let worker = |arguments: &[&str]| {
            let line = Line::parse_from(["bench", "worker"].iter().chain(arguments));
            let Scenario::Worker(options) = line.scenario.with_defaults() else { panic!("another scenario") };
            options
        };
        let arguments = "--part soak,poll --contender worker,poll --records 9 --bytes 8 --sleep-ms 7 --keys 6,5 --partitions 4 --concurrency 3,2 --held 10 --blocked 1.5 --rate 11 --minutes 0.5 --protocol consumer --real --seed 3";
        let options = worker(&arguments.split(' ').collect::<Vec<_>>());
        let command = options.command();
        let (_, arguments) = command.split_once(" -- worker ").unwrap();
        let again = worker(&arguments.split(' ').collect::<Vec<_>>());
        assert_eq!(again.command(), command);
        assert_eq!((&again.sleep_ms[..], &again.keys[..], &again.partitions[..]), (&[7][..], &[6, 5][..], &[4][..]));
        assert_eq!((&again.concurrency[..], again.held, again.records, again.bytes), (&[3, 2][..], Some(10), 9, 8));
        assert_eq!((again.blocked.as_millis(), again.rate, again.minutes.as_secs()), (1500, 11, 30));
        assert_eq!((again.real, again.protocol), (true, Protocol::Consumer));
        assert_eq!(again.running(&[worker::Way::Poll, worker::Way::Loop]), [worker::Way::Poll]);
        assert_eq!(chosen(&again.parts), [worker::Part::Poll, worker::Part::Soak]);
    }

    #[test]
    fn the_printed_command_of_lease_means_the_same_run() {
        let lease = |arguments: &[&str]| {
            let line = Line::parse_from(["bench", "lease"].iter().chain(arguments));
            let Scenario::Lease(options) = line.scenario.with_defaults() else { panic!("another scenario") };
            options
        };
        let arguments = "--part one --backend redis,postgres --contender apart,polling --clients 4 --seed 3";
        let command = lease(&arguments.split(' ').collect::<Vec<_>>()).command();
        let (_, arguments) = command.split_once(" -- lease ").unwrap();
        let again = lease(&arguments.split(' ').collect::<Vec<_>>());
        assert_eq!(again.command(), command);
        assert_eq!(chosen(&again.backends), [lease::Backend::Postgres, lease::Backend::Redis]);
        assert_eq!(again.running(&[lease::Way::Polling, lease::Way::Fenced]), [lease::Way::Polling]);
        assert_eq!((again.parts, again.common.clients), (vec![lease::Part::One], vec![4]));
        let arguments = "--part pauses,cuts --faults 40 --pairs 8 --ttl 2.5 --seed 3";
        let command = lease(&arguments.split(' ').collect::<Vec<_>>()).command();
        let (_, arguments) = command.split_once(" -- lease ").unwrap();
        let again = lease(&arguments.split(' ').collect::<Vec<_>>());
        assert_eq!((again.faults, again.pairs, again.ttl.as_millis()), (Some(40), 8, 2500));
        assert_eq!(again.parts, [lease::Part::Pauses, lease::Part::Cuts]);
    }

    #[test]
    fn each_scenario_has_its_own_numbers_of_clients() {
        assert_eq!(stock(&[]).common.clients, [1, 16, 64, 256]);
        let options = idempotency(&[]).common;
        assert_eq!(options.with_clients(&[1, 16]).clients, [1, 16]);
        let options = idempotency(&["--clients", "4"]).common;
        assert_eq!(options.with_clients(&[1, 16]).clients, [4], "those that are named are every part's");
    }

    #[test]
    fn the_address_chooses_the_engine_and_is_not_printed() {
        let options = stock(&["--database", "mysql://somebody:secret@127.0.0.1/"]).common;
        assert_eq!(options.engine(), Engine::MySql);
        assert!(!options.command("stock").contains("secret"));
        assert_eq!(stock(&["--database", "postgres://127.0.0.1/"]).common.engine(), Engine::Postgres);
        assert_eq!(stock(&["--sqlite"]).common.engine(), Engine::Sqlite);
    }

    #[test]
    fn limits_are_checked_before_anything_runs() {
        for wrong in [
            ["--clients", "0"],
            ["--clients", "1,257"],
            ["--rounds", "0"],
            ["--seconds", "0"],
            ["--seconds", "nan"],
            ["--database", "sqlite://file"],
            ["--scenario", "no-such"],
            ["--contender", "no-such"],
        ] {
            assert!(Line::try_parse_from(["bench", "stock"].into_iter().chain(wrong)).is_err(), "{wrong:?}");
        }
    }
}
