//! The figures by their names, for the terminal and for the page: pure.

use super::figures::{accuracy, bytes, count, gigabytes, loss, percent, time};
use super::summary::{Figures, Summary};
use super::traffic::Traffic;

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Its name in JSON.
    pub(crate) key: &'static str,
    /// Of the ranks.
    pub(crate) ranks: Cell,
    /// Of one process.
    pub(crate) alone: Option<Cell>,
}

/// A number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    /// As people read it.
    pub(crate) shown: String,
    /// As it is.
    pub(crate) value: f64,
}

/// What ranks and one process have come to.
pub(crate) fn results(summary: &Summary) -> Vec<Row> {
    let row = |name, key, of: fn(&Figures) -> f64, write: fn(f64) -> String| {
        let cell = |figures: &Figures| Cell { shown: write(of(figures)), value: of(figures) };
        Row {
            name,
            key,
            ranks: cell(&summary.distributed),
            alone: summary.alone.as_ref().map(cell),
        }
    };
    vec![
        row("time to learn", "seconds", |it| it.seconds, time),
        row("samples/s", "samples_per_second", |it| it.samples_per_second, count),
        row("loss in the first step", "first_loss", |it| it.first_loss, loss),
        row("loss in the last steps", "last_loss", |it| it.last_loss, loss),
        row("loss on pictures kept back", "test_loss", |it| it.test_loss, loss),
        row("of these read rightly", "test_accuracy", |it| it.test_accuracy, accuracy),
    ]
}

/// What gradients did on their way.
pub(crate) fn traffic(summary: &Summary) -> Vec<Row> {
    let Some(traffic) = &summary.traffic else { return Vec::new() };
    let row = |name, key, of: fn(&Traffic) -> f64, write: fn(f64) -> String| {
        let value = of(traffic);
        Row { name, key, ranks: Cell { shown: write(value), value }, alone: None }
    };
    let millis = |millis: f64| time(millis * 1e-3);
    vec![
        row("gradients in a step", "bytes", |it| it.bytes as f64, |it| bytes(it as usize)),
        row("buckets", "buckets", |it| it.buckets as f64, count),
        row("step", "step_ms", |it| it.step_ms, millis),
        row("forward", "forward_ms", |it| it.forward_ms, millis),
        row("backward", "backward_ms", |it| it.backward_ms, millis),
        row("communication", "communication_ms", |it| it.communication_ms, millis),
        row("… as a share of the step", "share", |it| it.share, percent),
        row("hidden behind backward", "hidden_ms", |it| it.hidden_ms, millis),
        row("… as a share of communication", "hidden_share", |it| it.hidden_share, percent),
        row("exposed", "exposed_ms", |it| it.exposed_ms, millis),
        row("bus bandwidth", "bus_GBs", |it| it.bus, gigabytes),
    ]
}
