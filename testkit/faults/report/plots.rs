//! SVG: what succeeded in each second and what was injected, and pauses by kind of injection.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use plotters::prelude::*;

use super::recovery::Recovery;
use crate::run::Outcome;

const WIDTH: u32 = 1_000;
const HEIGHT: u32 = 220;
/// Told apart by colour-blind readers as well (Okabe and Ito, "Color Universal Design", 2008).
const SUCCESSES: RGBColor = RGBColor(0, 114, 178);
const INJECTION: RGBColor = RGBColor(213, 94, 0);
/// A line of the chart of pauses.
const ROW: u32 = 22;

/// Successes a second over the course of a scenario, with a band for each injection.
pub(super) fn scenario(outcome: &Outcome, path: &Path) -> anyhow::Result<()> {
    draw_scenario(outcome, path).with_context(|| format!("{} cannot be drawn", path.display()))
}

fn draw_scenario(outcome: &Outcome, path: &Path) -> anyhow::Result<()> {
    let since = |at: Duration| at.saturating_sub(outcome.began).as_secs_f64();
    let last = outcome.successes.last().map_or(outcome.ended, |success| success.at.max(outcome.ended));
    let seconds = (since(last).ceil()).max(1.0);
    let mut counts = vec![0_u32; usize::try_from(last.saturating_sub(outcome.began).as_secs())? + 1];
    for success in &outcome.successes {
        let second = usize::try_from(success.at.saturating_sub(outcome.began).as_secs())?;
        counts[second] += 1;
    }
    let highest = f64::from(counts.iter().copied().max().unwrap_or_default()).max(1.0) * 1.05;
    let root = SVGBackend::new(path, (WIDTH, HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(8)
        .x_label_area_size(30)
        .y_label_area_size(50)
        .build_cartesian_2d(0.0..seconds, 0.0..highest)?;
    chart.configure_mesh().disable_mesh().x_desc("s").y_desc("successes a second").draw()?;
    let restarts = outcome.restarts.iter().map(|restart| (restart.began, restart.ended));
    let times = outcome.struck.iter().map(|struck| (struck.began, struck.ended)).chain(restarts);
    let bands = times.map(|(began, ended)| {
        let (from, to) = (since(began), since(ended).max(since(began) + 0.05));
        Rectangle::new([(from, 0.0), (to, highest)], INJECTION.mix(0.15).filled())
    });
    chart.draw_series(bands)?;
    let points = (0_u32..).zip(&counts).map(|(second, count)| (f64::from(second) + 0.5, f64::from(*count)));
    chart.draw_series(LineSeries::new(points, SUCCESSES.stroke_width(2)))?;
    root.present()?;
    Ok(())
}

/// The longest pauses by kind of injection.
pub(super) fn recoveries(recoveries: &[Recovery], path: &Path) -> anyhow::Result<()> {
    draw_recoveries(recoveries, path).with_context(|| format!("{} cannot be drawn", path.display()))
}

fn draw_recoveries(recoveries: &[Recovery], path: &Path) -> anyhow::Result<()> {
    let rows = u32::try_from(recoveries.len())?;
    let longest = recoveries.iter().map(|recovery| recovery.pause_s.max).fold(1.0, f64::max) * 1.05;
    let root = SVGBackend::new(path, (WIDTH, rows * ROW + 60)).into_drawing_area();
    root.fill(&WHITE)?;
    let name = |row: &f64| {
        // Each name stands at the half of its row.
        let kind = recoveries.iter().zip(0_u32..).find(|(_, number)| (f64::from(*number) + 0.5 - row).abs() < 0.01);
        kind.map_or(String::new(), |(recovery, _)| recovery.kind.clone())
    };
    let mut chart = ChartBuilder::on(&root)
        .margin(8)
        .x_label_area_size(36)
        .y_label_area_size(360)
        .build_cartesian_2d(0.0..longest, 0.0..f64::from(rows.max(1)))?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .x_desc("longest pause, s: median (dark) and longest")
        .y_labels(2 * recoveries.len() + 1)
        .y_label_formatter(&name)
        .draw()?;
    for (recovery, number) in recoveries.iter().zip(0_u32..) {
        let row = f64::from(number);
        let bar = |to: f64| [(0.0, row + 0.2), (to, row + 0.8)];
        chart.draw_series([
            Rectangle::new(bar(recovery.pause_s.max), SUCCESSES.mix(0.3).filled()),
            Rectangle::new(bar(recovery.pause_s.median), SUCCESSES.filled()),
        ])?;
    }
    root.present()?;
    Ok(())
}
