//! The timetable of two machines, two kills, and the reconciliation.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table, presets};
use leastlock::lease::MIGRATIONS;

use crate::args::{Args, Mistake};
use crate::books::{self, Totals, day};
use crate::crew::Worker;
use crate::ended::Ended;
use crate::engine::{Engine, execute};

/// The days whose batch meets a kill.
const KILLED_AFTER: u32 = 2;
const KILLED_INSIDE: u32 = 4;

/// What the workers said.
#[derive(Debug, Default)]
struct Said {
    ran: BTreeMap<&'static str, u32>,
    done: u32,
}

pub(crate) async fn run<DB: Engine>(args: &Args, url: &str) -> Result<(), Ended> {
    let refused = |error: sqlx::Error| Ended::refused("the database", &error);
    let pool = DB::open(url).await.map_err(|error| Ended::refused("cannot reach the database", &error))?;
    MIGRATIONS.run(&pool).await.map_err(|error| Ended::refused("the tables of the lease", &error))?;
    execute(&pool, &["DELETE FROM leastlock_once WHERE job = 'settlement'"]).await.map_err(refused)?;
    books::fill(&pool, args.days, args.merchants, args.sales).await.map_err(refused)?;
    println!("{} days, each started by two machines at the same time", args.days);

    let mut crew = Crew::start(args, url)?;
    for number in 1..=args.days {
        match number {
            KILLED_AFTER => crew.kill_at(&day(number), "after").await?,
            KILLED_INSIDE => crew.kill_at(&day(number), "inside").await?,
            _ => {}
        }
        crew.start_batch(&day(number)).await?;
    }
    // The day after, somebody starts them all once more.
    for number in 1..=args.days {
        crew.start_batch(&day(number)).await?;
    }

    let (totals, breaches) = books::reconcile(&pool).await.map_err(refused)?;
    println!("{}", table(args, &crew.said, totals));
    if !breaches.is_empty() {
        return Err(Ended::Breach(breaches));
    }
    println!("reconciled: every merchant was paid once for every day");
    Ok(())
}

struct Crew<'a> {
    args: &'a Args,
    url: &'a str,
    a: Worker,
    b: Worker,
    said: Said,
}

impl<'a> Crew<'a> {
    fn start(args: &'a Args, url: &'a str) -> Result<Self, Ended> {
        let (a, b) = (worker(args, url, "a")?, worker(args, url, "b")?);
        Ok(Self { args, url, a, b, said: Said::default() })
    }

    /// Both machines start the batch of the day, and both answer.
    async fn start_batch(&mut self, day: &str) -> Result<(), Ended> {
        self.a.tell(day).await?;
        self.b.tell(day).await?;
        for (name, answer) in [("a", self.a.answer().await?), ("b", self.b.answer().await?)] {
            match answer.strip_prefix(day).map(|rest| rest.split(' ').nth(1).unwrap_or_default()) {
                Some("ran") => *self.said.ran.entry(name).or_default() += 1,
                Some("done") => self.said.done += 1,
                _ => return Err(Ended::Breach(vec![format!("worker {name} says {answer:?}")])),
            }
        }
        Ok(())
    }

    /// Worker `a` runs the batch and is killed half-way; another one takes its place.
    async fn kill_at(&mut self, day: &str, place: &str) -> Result<(), Ended> {
        self.a.tell(&format!("{day} {place}")).await?;
        let answer = self.a.answer().await?;
        let killed = std::mem::replace(&mut self.a, worker(self.args, self.url, "a")?);
        if answer != format!("{day} halted") {
            return Err(Ended::Breach(vec![format!("worker a says {answer:?}")]));
        }
        killed.kill().await?;
        println!(
            "{day}: worker a was killed {}",
            if place == "after" { "after its commit" } else { "before its commit" }
        );
        Ok(())
    }
}

fn worker(args: &Args, url: &str, name: &str) -> Result<Worker, Ended> {
    let ttl = args.ttl_ms.to_string();
    let mut arguments = vec![("--database", url), ("--ttl-ms", &*ttl)];
    match args.mistake {
        None => {}
        Some(Mistake::LeaseAlone) => arguments.push(("--mistake", "lease-alone")),
        Some(Mistake::MarkAfter) => arguments.push(("--mistake", "mark-after")),
        Some(Mistake::MarkBefore) => arguments.push(("--mistake", "mark-before")),
    }
    Worker::start(name, &arguments)
}

fn table(args: &Args, said: &Said, totals: Totals) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    let mut line = |what: &str, figure: String| {
        table.add_row([what.to_owned(), figure]);
    };
    line("days", args.days.to_string());
    line("merchants", args.merchants.to_string());
    for name in ["a", "b"] {
        line(&format!("batches that worker {name} ran to their end"), said.ran.get(name).unwrap_or(&0).to_string());
    }
    line("starts that found the day settled", said.done.to_string());
    line("payouts", totals.payouts.to_string());
    line("sold, cents", totals.sold.to_string());
    line("paid, cents", totals.paid.to_string());
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}
