//! SVG.

mod bars;

use std::path::Path;

use anyhow::Context;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::contest::{Comparison, Entry};
use crate::report::Report;
use crate::statistics::Spread;

const PANEL_WIDTH: u32 = 560;
const PANEL_HEIGHT: u32 = 360;
/// Told apart by colour-blind readers as well (Okabe and Ito, "Color Universal Design", 2008).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(240, 228, 66),
];
/// Values further apart than this are drawn on a logarithmic scale.
const LINEAR: f64 = 20.0;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A row of panels: what it shows of an entry.
struct Kind {
    caption: String,
    unit: &'static str,
    decimals: usize,
    value: fn(&Comparison, &Entry) -> Option<Spread>,
}

/// A line of a panel: its name, its colour, and a value with its spread for each number of clients.
struct Line {
    name: &'static str,
    colour: RGBColor,
    points: Vec<(u32, Spread)>,
}

/// Draws `<scenario>.svg`: sheets as bars, or for each operation throughput, latency and ratio below each other, over the number of clients.
/// Points are medians, bars go from the smallest to the largest value.
pub(crate) fn write(report: &Report, folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(report.scenario).with_extension("svg");
    let drawn =
        if report.sheets.is_empty() { draw(report, &path) } else { bars::draw(&report.sheets, &report.engine, &path) };
    drawn.with_context(|| format!("{} cannot be drawn", path.display()))
}

fn draw(report: &Report, path: &Path) -> anyhow::Result<()> {
    let (measures, kinds) = (measures(report), kinds(report));
    let (columns, rows) = (u32::try_from(measures.len())?, u32::try_from(kinds.len())?);
    let root = SVGBackend::new(path, (PANEL_WIDTH * columns, PANEL_HEIGHT * rows)).into_drawing_area();
    root.fill(&WHITE)?;
    let panels = root.split_evenly((kinds.len(), measures.len()));
    for (row, kind) in panels.chunks(measures.len()).zip(&kinds) {
        for (area, measure) in row.iter().zip(&measures) {
            let of_measure: Vec<_> = report.comparisons.iter().filter(|one| one.measure == *measure).collect();
            // Without its base no contender has a ratio.
            let lines = lines(&of_measure, kind.value);
            if !lines.is_empty() {
                panel(area, &format!("{measure}: {}", kind.caption), kind, &lines)?;
            }
        }
    }
    root.present()?;
    Ok(())
}

fn kinds(report: &Report) -> [Kind; 3] {
    let kind = |caption, unit, decimals, value| Kind { caption, unit, decimals, value };
    let engine = &report.engine;
    [
        kind(format!("throughput, {engine}"), "operations a second", 0, |_, entry| {
            Spread::of(entry.values(|round| round.per_second))
        }),
        kind(format!("latency (p99), {engine}"), "ms", 1, |_, entry| {
            Spread::of(entry.values(|round| round.p99_us / 1000.0))
        }),
        kind(format!("throughput, {}", report.ratio), "ratio", 1, Comparison::ratio),
    ]
}

fn measures(report: &Report) -> Vec<&'static str> {
    let mut measures: Vec<_> = report.comparisons.iter().map(|comparison| comparison.measure).collect();
    measures.dedup();
    measures
}

fn lines(comparisons: &[&Comparison], value: fn(&Comparison, &Entry) -> Option<Spread>) -> Vec<Line> {
    let names: Vec<_> = comparisons.iter().take(1).flat_map(|one| one.entries.iter().map(|entry| entry.name)).collect();
    let line = |(number, name): (usize, &&'static str)| {
        let points = comparisons.iter().filter_map(|comparison| {
            let entry = comparison.entries.iter().find(|entry| entry.name == *name)?;
            Some((comparison.clients, value(comparison, entry)?))
        });
        Line { name, colour: COLOURS[number % COLOURS.len()], points: points.collect() }
    };
    names.iter().enumerate().map(line).filter(|line| !line.points.is_empty()).collect()
}

/// Linear from zero, or logarithmic where the values are far apart.
fn panel(area: &Area<'_>, caption: &str, kind: &Kind, lines: &[Line]) -> anyhow::Result<()> {
    let values = || lines.iter().flat_map(|line| &line.points).map(|(_, value)| value);
    let low = values().map(|value| value.min).fold(f64::INFINITY, f64::min);
    let high = values().map(|value| value.max).fold(0.0, f64::max);
    // The legend stands above the highest bar: in pixels, about 16 a line of the 270 that a panel's chart is high.
    let legend = (28.0 + 16.0 * f64::from(u32::try_from(lines.len())?)) / 270.0;
    let room = 1.0 / (1.0 - legend.min(0.7));
    if low > 0.0 && high / low > LINEAR {
        let low = low / 1.5;
        chart(area, caption, kind, lines, (low..low * (high / low).powf(room)).log_scale())
    } else {
        chart(area, caption, kind, lines, 0.0..high * room)
    }
}

fn chart<Y>(area: &Area<'_>, caption: &str, kind: &Kind, lines: &[Line], height: Y) -> anyhow::Result<()>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let points = || lines.iter().flat_map(|line| &line.points);
    let mut clients: Vec<_> = points().map(|(clients, _)| *clients).collect();
    clients.sort_unstable();
    clients.dedup();
    // Numbers of clients stand at equal distances, whatever they are.
    let ticks: Vec<f64> = (0_u32..).map(f64::from).take(clients.len()).collect();
    let place = |wanted: u32| clients.iter().zip(&ticks).find(|(found, _)| **found == wanted).map_or(0.0, |(_, x)| *x);
    let label =
        |x: &f64| clients.iter().find(|one| (place(**one) - x).abs() < 1e-6).map_or(String::new(), u32::to_string);

    let right = ticks.last().context("there is no round to draw")? + 0.5;
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(-0.5..right, height)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("clients")
        // Room for one at each half, so that none at a whole is left out.
        .x_labels(2 * ticks.len() + 1)
        .x_label_formatter(&label)
        .y_desc(kind.unit)
        .y_label_formatter(&|y| format!("{y:.*}", kind.decimals))
        .draw()?;
    let mut shift = -0.04;
    for Line { name, colour, points } in lines {
        let at = |clients: u32| place(clients) + shift;
        let medians = points.iter().map(|(clients, value)| (at(*clients), value.median));
        let stroke = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(medians, stroke).point_size(4))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], stroke));
        let bars = points.iter().map(|(clients, value)| {
            let x = at(*clients);
            PathElement::new([(x, value.min), (x, value.max)], colour.stroke_width(1))
        });
        chart.draw_series(bars)?;
        // Bars beside each other stay apart.
        shift += 0.04;
    }
    let legend = &mut chart.configure_series_labels();
    legend.position(SeriesLabelPosition::UpperRight).border_style(BLACK.mix(0.3)).draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;
    use crate::sheet::tests::sheet;

    #[test]
    fn plot_names_every_operation_and_contender() {
        let folder = tempfile::tempdir().unwrap();
        write(&report(), folder.path()).unwrap();
        let svg = std::fs::read_to_string(folder.path().join("example.svg")).unwrap();
        for name in [
            "one: throughput, SQLite 3",
            "two: latency (p99), SQLite 3",
            "two: throughput, leastlock / this",
            "leastlock",
            "by hand",
            "ratio",
            "clients",
            ">\n16\n<",
        ] {
            assert!(svg.contains(name), "{name}");
        }
    }

    #[test]
    fn plot_of_sheets_names_every_figure_and_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = report();
        report.sheets.push(sheet());
        write(&report, folder.path()).unwrap();
        let svg = std::fs::read_to_string(folder.path().join("example.svg")).unwrap();
        for name in ["drain: events/s, SQLite 3", "drain: CPU s, SQLite 3", "1 KB, relay", "200 B, loop"] {
            assert!(svg.contains(name), "{name}");
        }
    }
}
