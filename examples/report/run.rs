//! Two workers, one of which stands still, and the comparison at the end.

use std::path::Path;

use comfy_table::{CellAlignment, Table, presets};
use leastlock::lease::MIGRATIONS;
use sqlx::Pool;

use crate::args::Args;
use crate::books::{self, month};
use crate::crew::Worker;
use crate::draft::Published;
use crate::ended::Ended;
use crate::engine::Engine;
use crate::worker::GO_ON;

#[derive(Debug, Default)]
struct Figures {
    published: u32,
    refused: u32,
    late: u32,
}

pub(crate) async fn run<DB: Engine>(args: &Args, url: &str, folder: &Path) -> Result<(), Ended> {
    let pool = DB::open(url).await.map_err(|error| Ended::refused("cannot reach the database", &error))?;
    MIGRATIONS.run(&pool).await.map_err(|error| Ended::refused("the tables of the lease", &error))?;
    books::make(&pool).await.map_err(|error| Ended::refused("the database", &error))?;
    println!(
        "{} months, each written by two workers, one of which stands still for longer than its lease",
        args.months
    );

    let (mut figures, mut breaches) = (Figures::default(), Vec::new());
    let (mut a, mut b) = (worker(args, url, folder, "a")?, worker(args, url, folder, "b")?);
    for month in (1..=args.months).map(month) {
        write_twice(&pool, args, &month, (&mut a, &mut b), &mut figures).await?;
        breaches.extend(compare(&pool, args, &month, folder).await?);
    }
    if !args.unfenced {
        breaches.extend(left_behind(folder)?);
    }
    println!("{}", table(args, &figures));
    if !breaches.is_empty() {
        return Err(Ended::Breach(breaches));
    }
    println!("reconciled: every report has all that was booked when it was taken over");
    Ok(())
}

/// `a` drafts and is stopped; somebody books; `b` takes over and publishes; `a` goes on.
async fn write_twice<DB: Engine>(
    pool: &Pool<DB>,
    args: &Args,
    month: &str,
    (a, b): (&mut Worker, &mut Worker),
    figures: &mut Figures,
) -> Result<(), Ended> {
    let booked = |error: sqlx::Error| Ended::refused("the database", &error);
    books::book(pool, month, 1, args.bookings).await.map_err(booked)?;
    a.tell(&format!("{month} halt")).await?;
    expect("a", &a.answer().await?, &format!("{month} written"))?;
    a.stop()?;
    books::book(pool, month, args.bookings + 1, 1).await.map_err(booked)?;
    // Its lease runs out, since nobody renews it.
    b.tell(month).await?;
    expect("b", &b.answer().await?, &format!("{month} published"))?;
    figures.published += 1;
    a.resume()?;
    a.tell(GO_ON).await?;
    let late = a.answer().await?;
    if late.starts_with(&format!("{month} refused")) {
        figures.refused += 1;
    } else {
        expect("a", &late, &format!("{month} published"))?;
        figures.late += 1;
    }
    Ok(())
}

fn expect(name: &str, answer: &str, expected: &str) -> Result<(), Ended> {
    if answer.starts_with(expected) {
        return Ok(());
    }
    Err(Ended::Breach(vec![format!("worker {name} says {answer:?}, and not {expected:?}")]))
}

/// What is wrong with the report of the month, as a reader finds it.
async fn compare<DB: Engine>(
    pool: &Pool<DB>,
    args: &Args,
    month: &str,
    folder: &Path,
) -> Result<Option<String>, Ended> {
    let database = |error: sqlx::Error| Ended::refused("the database", &error);
    let booked = books::read(pool, month).await.map_err(database)?;
    let report = if args.unfenced {
        Published::put_over(month, folder).map_err(|error| Ended::refused("the report", &error))?
    } else {
        let found = books::find(pool, month).await.map_err(database)?;
        found.ok_or_else(|| Ended::Breach(vec![format!("{month}: no report was published")]))?
    };
    Ok(match report.read(folder) {
        Ok(reported) if reported == booked => None,
        Ok(reported) => Some(format!(
            "{month}: {} has {} bookings of {}: a late report stands over a newer one",
            report.file,
            reported.len(),
            booked.len()
        )),
        Err(error) => Some(format!("{month}: {error}")),
    })
}

/// Drafts and files of older generations, which must be gone.
fn left_behind(folder: &Path) -> Result<Option<String>, Ended> {
    let list = || -> std::io::Result<Vec<String>> {
        let names = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.filter(|name| !name.as_ref().is_ok_and(|name| is_report(name))).collect()
    };
    let left = list().map_err(|error| Ended::refused("the folder", &error))?;
    Ok((!left.is_empty()).then(|| format!("left behind: {left:?}")))
}

fn is_report(name: &str) -> bool {
    name.strip_suffix(".csv").is_some_and(|name| name.contains(".g"))
}

fn worker(args: &Args, url: &str, folder: &Path, name: &str) -> Result<Worker, Ended> {
    let (folder, ttl, unfenced) = (folder.display().to_string(), args.ttl_ms.to_string(), args.unfenced.to_string());
    let arguments = [("--database", url), ("--folder", &*folder), ("--ttl-ms", &*ttl), ("--unfenced", &*unfenced)];
    Worker::start(name, &arguments)
}

fn table(args: &Args, figures: &Figures) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    let mut line = |what: &str, figure: u32| {
        table.add_row([what.to_owned(), figure.to_string()]);
    };
    line("months", args.months);
    line("reports that were published after a take-over", figures.published);
    line("late reports that were refused", figures.refused);
    line("late reports that were published", figures.late);
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}
