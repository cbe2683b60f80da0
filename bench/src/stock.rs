//! Units taken from rows, in every way there is: conditional UPDATE, version column, row lock, combiner.
//!
//! | module | concept |
//! |---|---|
//! | `contender` | the ways, and what each is divided by |
//! | `by_hand` | the statements, in sqlx alone |
//! | `item` | a row with a version: derived updates, and `Retry` |
//! | `shelf` | the contest: rows, calls, and whether the database agrees |
//! | `aims` | the ratios that the project aims at |

mod aims;
mod by_hand;
mod contender;
mod item;
mod shelf;

use std::sync::Arc;

use anyhow::ensure;
use clap::ValueEnum;
use leastlock_occ::{MIGRATIONS, StockSql};
use leastlock_testkit::TestDatabase;

pub(crate) use self::by_hand::StockByHand;
pub(crate) use self::contender::Contender;

use self::shelf::Shelf;
use crate::contest::{Course, compare, turns};
use crate::engine::BenchEngine;
use crate::options::{StockOptions, chosen};
use crate::progress::Progress;
use crate::report::Report;

/// An engine with all statements of this scenario.
pub(crate) trait StockEngine: BenchEngine + StockByHand + StockSql {}

impl<DB: BenchEngine + StockByHand + StockSql> StockEngine for DB {}

/// Which rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scene {
    /// One row, by all clients.
    HotRow,
    /// Ten rows, each as likely as any other.
    TenHotRows,
    /// 1,000 rows, each as likely as any other.
    ColdRows,
    /// 1,000 rows, each written by one client only, which knows its version: no conflicts.
    OwnRows,
}

impl Scene {
    /// What is done, in the report.
    const fn measure(self) -> &'static str {
        match self {
            Self::HotRow => "1 hot row",
            Self::TenHotRows => "10 hot rows",
            Self::ColdRows => "1,000 cold rows",
            Self::OwnRows => "own rows of 1,000",
        }
    }

    const fn rows(self) -> usize {
        match self {
            Self::HotRow => 1,
            Self::TenHotRows => 10,
            Self::ColdRows | Self::OwnRows => 1000,
        }
    }
}

/// Measures the scenario.
pub(crate) async fn run<DB: StockEngine>(options: &StockOptions) -> anyhow::Result<Report> {
    let database = database::<DB>().await;
    let (limit, cpu) = (DB::limit(&database).await?, DB::cpu(&database).await?);
    let common = &options.common;
    let mut report = Report::begin("stock", options.command(), common, &database).await?;
    report.ratio = "this / base";
    report.cpu = Some(cpu.description());

    let mut shelves = Vec::new();
    for scene in chosen(&options.scenes) {
        let contenders = Contender::in_scene(scene, &options.contenders);
        if !contenders.is_empty() {
            shelves.push(Shelf::new(&database, limit, scene, contenders));
        }
    }
    let contenders = shelves.iter().map(|shelf| shelf.contenders().len()).sum();
    ensure!(contenders > 0, "none of these contenders takes part in any of these scenes");

    let (turns, time) = turns(contenders, common);
    let course = Course { options: common, cpu, progress: Progress::begin(turns, time) };
    for shelf in shelves {
        report.comparisons.extend(compare(shelf, &course).await?);
    }
    course.progress.end();
    report.aims = aims::of(&report.comparisons);
    Ok(report)
}

async fn database<DB: StockEngine>() -> Arc<TestDatabase<DB>> {
    let database = TestDatabase::<DB>::create().await.with(&MIGRATIONS).await;
    for table in DB::TABLES {
        database.execute(table).await;
    }
    Arc::new(database)
}
