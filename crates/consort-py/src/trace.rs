//! A rank's record of its last calls, as Python reads it.

use consort::trace::{CallTrace, GroupTrace, RankTrace};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The record as a dictionary.
pub(crate) fn dict<'py>(py: Python<'py>, trace: &RankTrace) -> PyResult<Bound<'py, PyDict>> {
    let record = PyDict::new(py);
    record.set_item("rank", trace.rank)?;
    record.set_item("world", trace.world)?;
    record.set_item("job", &trace.job)?;
    record.set_item("process", trace.process)?;
    let groups: PyResult<Vec<_>> =
        trace.groups.iter().map(|group| of_group(py, trace, group)).collect();
    record.set_item("groups", groups?)?;
    Ok(record)
}

fn of_group<'py>(
    py: Python<'py>,
    trace: &RankTrace,
    group: &GroupTrace,
) -> PyResult<Bound<'py, PyDict>> {
    let record = PyDict::new(py);
    record.set_item("name", &group.name)?;
    record.set_item("rank", group.rank)?;
    record.set_item("world", group.world)?;
    record.set_item("members", &group.members)?;
    record.set_item("has_left", group.has_left)?;
    record.set_item("made", group.made)?;
    record.set_item("ended", group.ended)?;
    record.set_item("failed", group.failed)?;
    record.set_item("bytes", group.bytes)?;
    record.set_item("busy_ns", group.busy)?;
    let calls: PyResult<Vec<_>> = group.calls.iter().map(|call| of_call(py, trace, call)).collect();
    record.set_item("calls", calls?)?;
    Ok(record)
}

fn of_call<'py>(
    py: Python<'py>,
    trace: &RankTrace,
    call: &CallTrace,
) -> PyResult<Bound<'py, PyDict>> {
    let record = PyDict::new(py);
    record.set_item("number", call.number)?;
    record.set_item("call", call.to_string())?;
    record.set_item("bytes", call.bytes())?;
    record.set_item("queued", call.queued)?;
    record.set_item("began", call.began)?;
    record.set_item("ended", call.ended)?;
    record.set_item("has_failed", call.has_failed)?;
    record.set_item("waits_for", call.waits_for)?;
    record.set_item("site", trace.site(call))?;
    Ok(record)
}
