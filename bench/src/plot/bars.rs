//! Sheets: a panel for each figure, a bar for each line.

use std::path::Path;

use plotters::prelude::*;

use super::{Area, COLOURS, PANEL_WIDTH};
use crate::sheet::{Line, Sheet};
use crate::statistics::Spread;

/// Of a panel without its bars, and of a bar.
const FRAME_HEIGHT: u32 = 90;
const BAR_HEIGHT: u32 = 34;
/// What is written over a bar begins so far from the left, as a part of the width.
const INDENT: f64 = 0.01;

/// Draws all sheets below each other, the figures of each beside each other. Bars are medians, strokes go from the smallest to
/// the largest value.
pub(super) fn draw(sheets: &[Sheet], engine: &str, path: &Path) -> anyhow::Result<()> {
    let columns = sheets.iter().map(|sheet| sheet.figures.len()).max().unwrap_or_default();
    let heights: Vec<_> = sheets.iter().map(height).collect();
    let size = (PANEL_WIDTH * u32::try_from(columns)?, heights.iter().sum());
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    let mut rest = root.clone();
    for (sheet, height) in sheets.iter().zip(heights) {
        let (row, below) = rest.split_vertically(height);
        rest = below;
        for (number, area) in row.split_evenly((1, columns)).iter().enumerate().take(sheet.figures.len()) {
            panel(area, sheet, number, engine)?;
        }
    }
    root.present()?;
    Ok(())
}

fn height(sheet: &Sheet) -> u32 {
    FRAME_HEIGHT + BAR_HEIGHT * u32::try_from(sheet.lines.len()).unwrap_or_default()
}

fn panel(area: &Area<'_>, sheet: &Sheet, figure: usize, engine: &str) -> anyhow::Result<()> {
    let spread =
        |line: &Line| Spread::of(line.rounds.iter().map(|round| round[figure]).filter(|value| value.is_finite()));
    let high = sheet.lines.iter().filter_map(spread).map(|spread| spread.max).fold(0.0, f64::max);
    let width = if high > 0.0 { high * 1.05 } else { 1.0 };
    let bars = f64::from(u32::try_from(sheet.lines.len())?);
    let caption = format!("{}: {}, {engine}", sheet.part, sheet.figures[figure]);
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(30)
        // The first line stands on top.
        .build_cartesian_2d(0.0..width, bars..0.0)?;
    chart.configure_mesh().disable_y_mesh().disable_y_axis().light_line_style(TRANSPARENT).draw()?;
    let mut contenders = Vec::new();
    for (number, line) in sheet.lines.iter().enumerate() {
        let known = contenders.iter().position(|name| *name == line.contender);
        let colour = COLOURS[known.unwrap_or(contenders.len()) % COLOURS.len()];
        if known.is_none() {
            contenders.push(line.contender);
        }
        let (top, Some(spread)) = (f64::from(u32::try_from(number)?), spread(line)) else { continue };
        chart.draw_series([Rectangle::new([(0.0, top + 0.5), (spread.median, top + 0.9)], colour.filled())])?;
        let stroke = PathElement::new([(spread.min, top + 0.7), (spread.max, top + 0.7)], BLACK.stroke_width(1));
        chart.draw_series([stroke])?;
        let name = format!("{}, {}", line.setting, line.contender);
        chart.draw_series([Text::new(name, (width * INDENT, top + 0.1), ("sans-serif", 13))])?;
    }
    Ok(())
}
