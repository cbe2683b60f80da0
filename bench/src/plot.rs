//! SVG.

use std::path::Path;

use anyhow::Context;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::contest::{Comparison, Entry};
use crate::report::Report;
use crate::statistics::Spread;

const PANEL_WIDTH: u32 = 560;
const PANEL_HEIGHT: u32 = 360;
/// Told apart by colour-blind readers as well (Okabe and Ito, "Color Universal Design", 2008).
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(204, 121, 167)];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A row of panels.
struct Kind {
    unit: &'static str,
    decimals: usize,
}

/// A line of a panel: its name, its colour, and a value with its spread for each number of clients.
struct Line {
    name: &'static str,
    colour: RGBColor,
    points: Vec<(u32, Spread)>,
}

/// Draws `<scenario>.svg`: for each operation, throughput above and ratio below, over the number of clients. Points are
/// medians, bars go from the smallest to the largest value.
pub(crate) fn write(report: &Report, folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(report.scenario).with_extension("svg");
    draw(report, &path).with_context(|| format!("{} cannot be drawn", path.display()))
}

fn draw(report: &Report, path: &Path) -> anyhow::Result<()> {
    let measures = measures(report);
    let columns = u32::try_from(measures.len())?;
    let root = SVGBackend::new(path, (PANEL_WIDTH * columns, 2 * PANEL_HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    let panels = root.split_evenly((2, measures.len()));
    for (number, measure) in measures.iter().enumerate() {
        let of_measure: Vec<_> = report.comparisons.iter().filter(|one| one.measure == *measure).collect();
        let throughput = Kind { unit: "operations a second", decimals: 0 };
        panel(&panels[number], &format!("{}: {measure}", report.engine), &throughput, &throughputs(&of_measure))?;
        let ratio = Kind { unit: "ratio", decimals: 1 };
        panel(&panels[measures.len() + number], "throughput of leastlock / other", &ratio, &ratios(&of_measure))?;
    }
    root.present()?;
    Ok(())
}

fn measures(report: &Report) -> Vec<&'static str> {
    let mut measures: Vec<_> = report.comparisons.iter().map(|comparison| comparison.measure).collect();
    measures.dedup();
    measures
}

fn throughputs(comparisons: &[&Comparison]) -> Vec<Line> {
    lines(comparisons, |_, entry| Spread::of(entry.values(|round| round.per_second)))
}

fn ratios(comparisons: &[&Comparison]) -> Vec<Line> {
    lines(comparisons, Comparison::ratio)
}

fn lines(comparisons: &[&Comparison], value: impl Fn(&Comparison, &Entry) -> Option<Spread>) -> Vec<Line> {
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

fn panel(area: &Area<'_>, caption: &str, kind: &Kind, lines: &[Line]) -> anyhow::Result<()> {
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
    // The legend stands above the highest bar.
    let top = points().map(|(_, value)| value.max).fold(0.0, f64::max) * 1.4;
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(-0.5..right, 0.0..top)?;
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

    #[test]
    fn plot_names_every_operation_and_contender() {
        let folder = tempfile::tempdir().unwrap();
        write(&report(), folder.path()).unwrap();
        let svg = std::fs::read_to_string(folder.path().join("example.svg")).unwrap();
        for name in ["SQLite 3: one", "SQLite 3: two", "leastlock", "by hand", "ratio", "clients", ">\n16\n<"] {
            assert!(svg.contains(name), "{name}");
        }
    }
}
