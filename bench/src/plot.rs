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

/// A line of a panel: its name, its colour, and a value with its spread for each number of clients.
struct Line {
    name: String,
    colour: RGBColor,
    points: Vec<(f64, Spread)>,
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
        let caption = format!("{}: {measure}", report.engine);
        panel(&panels[number], &caption, "operations a second", &throughput(&of_measure))?;
        panel(&panels[measures.len() + number], "throughput of leastlock / other", "ratio", &ratios(&of_measure))?;
    }
    root.present()?;
    Ok(())
}

fn measures(report: &Report) -> Vec<&'static str> {
    let mut measures: Vec<_> = report.comparisons.iter().map(|comparison| comparison.measure).collect();
    measures.dedup();
    measures
}

fn throughput(comparisons: &[&Comparison]) -> Vec<Line> {
    lines(comparisons, |_, entry| Spread::of(entry.values(|round| round.per_second)))
}

fn ratios(comparisons: &[&Comparison]) -> Vec<Line> {
    lines(comparisons, Comparison::ratio)
}

fn lines(comparisons: &[&Comparison], value: impl Fn(&Comparison, &Entry) -> Option<Spread>) -> Vec<Line> {
    let names = comparisons.first().map_or(Vec::new(), |one| one.entries.iter().map(|entry| entry.name).collect());
    let line = |(number, name): (usize, &&str)| {
        let points = comparisons.iter().filter_map(|comparison| {
            let entry = comparison.entries.iter().find(|entry| entry.name == *name)?;
            Some((f64::from(comparison.clients), value(comparison, entry)?))
        });
        Line { name: (*name).to_owned(), colour: COLOURS[number % COLOURS.len()], points: points.collect() }
    };
    names.iter().enumerate().map(line).filter(|line| !line.points.is_empty()).collect()
}

fn panel(area: &Area<'_>, caption: &str, unit: &str, lines: &[Line]) -> anyhow::Result<()> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let clients = Spread::of(points().map(|(clients, _)| *clients)).context("there is no round to draw")?;
    let highest = points().map(|(_, value)| value.max).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        // A margin on both sides, so that one number of clients is a range as well.
        .build_cartesian_2d((clients.min / 1.5..clients.max * 1.5).log_scale(), 0.0..highest * 1.15)?;
    chart.configure_mesh().x_desc("clients").y_desc(unit).light_line_style(TRANSPARENT).draw()?;
    for Line { name, colour, points } in lines {
        let colour = *colour;
        let medians = points.iter().map(|(clients, value)| (*clients, value.median));
        chart
            .draw_series(LineSeries::new(medians, colour.stroke_width(2)).point_size(4))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        let bars = points.iter().map(|(clients, value)| {
            PathElement::new([(*clients, value.min), (*clients, value.max)], colour.stroke_width(1))
        });
        chart.draw_series(bars)?;
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw()?;
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
        for name in ["SQLite 3: one", "SQLite 3: two", "leastlock", "by hand", "ratio", "clients"] {
            assert!(svg.contains(name), "{name}");
        }
    }
}
