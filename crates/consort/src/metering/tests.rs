use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString,
    with_local_recorder,
};

use super::*;
use crate::{Builder, ReduceOp};

/// Keeps what it is told.
#[derive(Debug, Default)]
struct Notebook {
    values: Arc<Mutex<BTreeMap<String, f64>>>,
    units: Mutex<BTreeMap<String, Option<Unit>>>,
}

impl Notebook {
    fn value(&self, key: &str) -> f64 {
        let values = self.values.lock().unwrap();
        *values.get(key).unwrap_or_else(|| panic!("no {key} in {values:?}"))
    }

    fn line(&self, key: &Key) -> Arc<Line> {
        let labels: Vec<String> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        Arc::new(Line { name, values: self.values.clone() })
    }
}

struct Line {
    name: String,
    values: Arc<Mutex<BTreeMap<String, f64>>>,
}

impl CounterFn for Line {
    fn increment(&self, value: u64) {
        *self.values.lock().unwrap().entry(self.name.clone()).or_default() += value as f64;
    }

    fn absolute(&self, value: u64) {
        self.values.lock().unwrap().insert(self.name.clone(), value as f64);
    }
}

impl GaugeFn for Line {
    fn increment(&self, _value: f64) {}

    fn decrement(&self, _value: f64) {}

    fn set(&self, value: f64) {
        self.values.lock().unwrap().insert(self.name.clone(), value);
    }
}

impl Recorder for Notebook {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
        self.units.lock().unwrap().insert(key.as_str().to_owned(), unit);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
        self.units.lock().unwrap().insert(key.as_str().to_owned(), unit);
    }

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.line(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.line(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn what_was_done_so_far_is_told_when_it_is_asked_for() {
    let group = Builder::new().rank(0).world(1).init().unwrap();
    let notebook = Notebook::default();
    let publish = || with_local_recorder(&notebook, || group.publish_metrics());
    let mut numbers = vec![1.0_f32; 1 << 18];
    for rounds in 1..3 {
        group.all_reduce(&mut numbers, ReduceOp::Sum).unwrap();
        publish();
        let expected = (rounds as f64, (rounds << 20) as f64);
        let found = ["consort_calls_total", "consort_bytes_total"]
            .map(|name| notebook.value(&format!("{name} rank=0 group=world")));
        assert_eq!((found[0], found[1]), expected);
    }
    let time =
        |name| notebook.value(&format!("consort_{name}_nanoseconds_total rank=0 group=world"));
    assert!(time("busy") >= time("reducing") && time("reducing") > 0.0);
    assert_eq!(notebook.value("consort_queued_calls rank=0 group=world"), 0.0);
    let units = notebook.units.lock().unwrap();
    assert_eq!(units["consort_bytes_total"], Some(Unit::Bytes));
    assert_eq!(units["consort_busy_nanoseconds_total"], Some(Unit::Nanoseconds));
}

#[test]
fn a_group_that_fails_is_counted_once_and_at_once() {
    let group = Builder::new().rank(0).world(1).init().unwrap();
    let notebook = Notebook::default();
    with_local_recorder(&notebook, || {
        group.abort("enough");
        group.barrier().unwrap_err();
        group.barrier().unwrap_err();
    });
    assert_eq!(notebook.value("consort_failures_total group=world kind=aborted"), 1.0);
}
