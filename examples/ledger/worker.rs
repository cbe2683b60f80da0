//! One of the workers, in a process of its own.

use std::process::{Child, ChildStdout, Command, Stdio};

use leastlock::partition_worker::{Effect, Worker};
use rdkafka::ClientConfig;
use sqlx::{Postgres, Sqlite};
use tokio::io::AsyncReadExt;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::args::WorkerArgs;
use crate::ended::Ended;
use crate::engine::Engine;
use crate::ledger::{Ledger, Unfenced};

/// Starts a worker as a process. It ends with this one, whose end closes its standard input.
pub(crate) fn start(args: &WorkerArgs) -> Result<Child, Ended> {
    let failed = |error: std::io::Error| Ended::refused("cannot start a worker", &error);
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    let WorkerArgs { name, database, brokers, topic, session_ms, unfenced } = args;
    command.args(["worker", "--name", name, "--database", database, "--brokers", brokers, "--topic", topic]);
    command.args(["--session-ms", &session_ms.to_string()]);
    if *unfenced {
        command.arg("--unfenced");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)
}

/// Ends a worker in good order; answers its last words.
pub(crate) fn end(mut worker: Child) -> Result<String, Ended> {
    let failed = |error: std::io::Error| Ended::refused("a worker's end", &error);
    drop(worker.stdin.take());
    let words =
        worker.stdout.take().map(|out: ChildStdout| std::io::read_to_string(out)).transpose().map_err(failed)?;
    let status = worker.wait().map_err(failed)?;
    if status.success() {
        Ok(words.unwrap_or_default().trim().to_owned())
    } else {
        Err(Ended::Breach(vec![format!("a worker ended with {status}")]))
    }
}

/// The worker's part: consumes until its standard input ends.
pub(crate) fn run(args: &WorkerArgs) -> Result<(), Ended> {
    let runtime = Runtime::new().map_err(|error| Ended::refused("no runtime", &error))?;
    let ended = runtime.block_on(async {
        if args.database.starts_with("sqlite:") {
            consume::<Sqlite>(args).await
        } else {
            consume::<Postgres>(args).await
        }
    });
    // A read of stdin may be under way in a thread, which nothing but its end would end.
    runtime.shutdown_background();
    ended
}

async fn consume<DB: Engine>(args: &WorkerArgs) -> Result<(), Ended> {
    let pool = DB::open(&args.database).await.map_err(|error| Ended::refused("the worker's database", &error))?;
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        // Nothing is ever sent: it ends when the other side is closed, by whom and however.
        let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
        stop.cancel();
    });
    let mut kafka = ClientConfig::new();
    kafka
        .set("bootstrap.servers", &args.brokers)
        .set("group.id", &args.topic)
        .set("session.timeout.ms", args.session_ms.to_string())
        .set("heartbeat.interval.ms", (args.session_ms / 6).to_string());
    let (ledger, handlers) = (Ledger { worker: args.name.clone() }, usize::from(DB::HANDLERS));
    let summary = if args.unfenced {
        let worker =
            Worker::builder(kafka).topic(&args.topic).effect(Effect::at_least_once()).concurrency(handlers).build();
        worker.map_err(|error| unfit(&error))?.run(Unfenced { ledger, pool }, shutdown).await
    } else {
        let worker = Worker::builder(kafka).topic(&args.topic).effect(Effect::in_database(&pool));
        worker.concurrency(handlers).build().map_err(|error| unfit(&error))?.run(ledger, shutdown).await
    };
    let summary = summary.map_err(|error| Ended::refused("the worker stopped", &error))?;
    let done: u64 = summary.partitions.values().map(|partition| partition.already_done).sum();
    println!("{} posted, {done} of them by an earlier owner", summary.processed() + done);
    Ok(())
}

fn unfit(error: &leastlock::partition_worker::Error) -> Ended {
    Ended::refused("the worker", error)
}
