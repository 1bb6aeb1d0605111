//! The load map: what is due in the next 24 hours.

use maud::{Markup, html};

use super::View;
use crate::fleet::{LoadCell, LoadMap};
use crate::observe::dashboard::pages::widgets::{hour, moment, span, time};

const CELL_WIDTH: usize = 36;
const CELL_HEIGHT: usize = 18;
const CELLS_PER_HOUR: usize = 6;
const MOST_LISTED: usize = 5;
const MOST_KEYS: usize = 10;

pub(super) fn section(view: &View<'_>, load: &LoadMap) -> Markup {
    let first = load.cells.first().map_or(0, cell_of_hour);
    let columns = (first + load.cells.len()).div_ceil(CELLS_PER_HOUR);
    let (width, height) = (columns * CELL_WIDTH, CELLS_PER_HOUR * CELL_HEIGHT + 16);
    let busiest = load.cells.iter().map(score).max().unwrap_or(0);
    html! {
        section id="load" {
            h2 { "Next 24 hours" }
            p class="quiet" { "Each column is an hour, each cell ten minutes. A cell shows how many jobs are due; its colour is ticks × mean duration." }
            div class="scroll" role="region" aria-label="Load map" tabindex="0" {
                svg class="load" viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height) role="img" aria-label="Load of the next 24 hours; the busiest times are listed below" {
                    @for (number, cell) in load.cells.iter().enumerate() {
                        @let (column, row) = ((first + number) / CELLS_PER_HOUR, (first + number) % CELLS_PER_HOUR);
                        @let (x, y) = (column * CELL_WIDTH, row * CELL_HEIGHT + 16);
                        @if row == 0 { (hour(cell.at, x + 2, 11)) }
                        rect class=(format!("load{}", level(cell, busiest))) x=(x + 1) y=(y + 1) width=(CELL_WIDTH - 2) height=(CELL_HEIGHT - 2) rx="3" {
                            (moment(cell.at, view.now(), &format!(": {} jobs, {} ticks, {} of work", cell.jobs.len(), cell.ticks, span(cell.work))))
                        }
                        @if !cell.jobs.is_empty() {
                            text class=(format!("cell on{}", level(cell, busiest))) x=(x + CELL_WIDTH / 2) y=(y + 13) text-anchor="middle" { (cell.jobs.len()) }
                        }
                    }
                }
            }
            (list(view, load))
        }
    }
}

fn cell_of_hour(cell: &LoadCell) -> usize {
    usize::try_from(cell.at.as_micros().rem_euclid(3_600_000_000) / 600_000_000).unwrap_or(0)
}

/// The work in microseconds, and a little for each tick, so that jobs without a mean count, too.
fn score(cell: &LoadCell) -> u128 {
    cell.work.as_micros() + u128::from(cell.ticks) * 1000
}

/// From 0, nothing, to 4, the most of the day.
fn level(cell: &LoadCell, busiest: u128) -> u128 {
    if cell.ticks == 0 { 0 } else { (score(cell) * 4).div_ceil(busiest.max(1)).clamp(1, 4) }
}

fn list(view: &View<'_>, load: &LoadMap) -> Markup {
    let mut cells: Vec<_> = load.cells.iter().filter(|cell| cell.ticks > 0).collect();
    cells.sort_by_key(|cell| (std::cmp::Reverse(score(cell)), cell.at));
    html! {
        @if cells.is_empty() { p class="empty" { "Nothing is due." } }
        @else {
            h3 { "Busiest times" }
            ol class="why" {
                @for cell in cells.iter().take(MOST_LISTED) {
                    li {
                        (time(cell.at, view.now(), None)) " "
                        b { (cell.jobs.len()) " jobs" } ", " (cell.ticks) " ticks, " (span(cell.work)) " of work: "
                        span class="quiet" { (cell.jobs.iter().take(MOST_KEYS).map(String::as_str).collect::<Vec<_>>().join(", "))
                            @if cell.jobs.len() > MOST_KEYS { " and " (cell.jobs.len() - MOST_KEYS) " more" } }
                    }
                }
            }
        }
    }
}
