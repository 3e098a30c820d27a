//! One rank that measures the collectives in all forms that consort has, which take turns at every point:
//! on slices, on buffers that the call owns, on arrays and on candle's tensors. Rank 0 prints a line of JSON
//! for each: `consort run -n 2 -- functional-bench --bytes 8,1024 --seconds 0.1`.
#![forbid(unsafe_code)]

mod forms;
mod point;
mod timing;

use clap::Parser;
use consort::Group;
use consort_train::Result;
use serde_json::json;

use crate::forms::forms;
use crate::point::{OPERATIONS, Point};

/// Measures collectives on values against those on memory, as one of the ranks of `consort run`.
#[derive(Debug, Parser)]
struct Args {
    /// Sizes of the larger buffer.
    #[arg(long, value_delimiter = ',', required = true)]
    bytes: Vec<usize>,
    /// For each form at each point.
    #[arg(long, default_value_t = 0.25)]
    seconds: f64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let group = consort::init()?;
    for (op, collective) in &OPERATIONS {
        for &bytes in &args.bytes {
            measure(&Point::new(op, collective, bytes, &group)?, args.seconds, &group)?;
        }
    }
    Ok(())
}

fn measure(point: &Point, seconds: f64, group: &Group) -> Result<()> {
    let mut forms = forms(point, group)?;
    let Point { op, dim, bytes, .. } = *point;
    for (name, form) in &mut forms {
        let is_right = form(true)? == point.expected;
        assert!(is_right, "{name} has a wrong result: {op} of {bytes} bytes along {dim}");
    }
    let times = timing::medians(forms.iter_mut().map(|(_, form)| form), seconds, group)?;
    for ((name, _), time) in forms.iter().zip(times).filter(|_| group.rank() == 0) {
        let ranks = group.world();
        let row = json!({"impl": name, "op": op, "dim": dim, "ranks": ranks, "bytes": bytes, "p50_us": time});
        println!("{row}");
    }
    Ok(())
}
