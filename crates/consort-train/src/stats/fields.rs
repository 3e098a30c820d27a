//! The figures under the names that PyTorch has for them.

use std::fmt;
use std::time::Duration;

use consort::Space;

use super::Stats;
use crate::options::Unused;

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number; of nanoseconds, if it is a time.
    Number(i64),
    /// Words.
    Text(String),
}

impl Stats {
    /// All that it tells, under the names of PyTorch's `DDPLoggingData`. Fields that have no meaning here
    /// (streams, variables of other backends) are left out.
    ///
    /// ```
    /// # use consort::Dtype;
    /// # use consort_train::{Options, Parameter, Reducer, Value};
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// # let parameters = vec![Parameter::new("weight", Dtype::F32, &[2, 2])];
    /// # let reducer = Reducer::new(&group, parameters, Options::new())?;
    /// let fields = reducer.stats().fields();
    /// assert!(fields.contains(&("world_size", Value::Number(1))));
    /// # Ok::<(), consort_train::Error>(())
    /// ```
    pub fn fields(&self) -> Vec<(&'static str, Value)> {
        let numbers = |values: &[usize]| join(values.iter());
        let mut fields = vec![
            ("backend_name", text(self.backend)),
            ("comm_hook", text(&self.hook)),
            ("dtypes", text(join(self.dtypes.iter()))),
            ("world_size", count(self.world)),
            ("rank", Value::Number(i64::from(self.rank))),
            ("iteration", Value::Number(self.averaged as i64)),
            ("num_parameter_tensors", count(self.parameters)),
            ("total_parameter_size_bytes", count(self.parameter_bytes)),
            ("bucket_cap_bytes", count(self.caps.last().copied().unwrap_or(0))),
            ("bucket_sizes", text(numbers(&self.bucket_bytes))),
            ("find_unused_parameters", flag(self.unused == Unused::Average)),
            ("static_graph", flag(self.is_static)),
            ("can_set_static_graph", flag(self.could_be_static)),
            ("has_rebuilt_buckets", flag(self.is_rebuilt)),
            ("unused_parameter_size", count(self.unused_bytes)),
            ("num_buckets_reduced", count(self.buckets_reduced)),
            ("prev_iteration_grad_ready_order_indices", text(numbers(&self.ready_order))),
            ("has_error", flag(self.error.is_some())),
            ("error", text(self.error.as_deref().unwrap_or_default())),
        ];
        if let Space::Device(number) = self.space {
            fields.push(("device_ids", text(number.to_string())));
        }
        if self.is_rebuilt {
            let indices = self.buckets.iter().map(|bucket| numbers(bucket));
            fields.push(("rebuilt_bucket_sizes", text(numbers(&self.bucket_bytes))));
            let indices: Vec<String> = indices.collect();
            fields.push(("rebuilt_per_bucket_param_indices", text(indices.join("; "))));
        }
        if let Some(last) = &self.last {
            fields.extend(last.forward.map(|it| ("forward_compute_time", time(it))));
            fields.push(("backward_compute_time", time(last.backward)));
            fields.push(("backward_comm_time", time(last.communication)));
            fields.push(("backward_compute_comm_overlap_time", time(last.hidden)));
            fields.extend(self.mean.forward.map(|it| ("avg_forward_compute_time", time(it))));
            fields.push(("avg_backward_compute_time", time(self.mean.backward)));
            fields.push(("avg_backward_comm_time", time(self.mean.communication)));
            fields.push(("avg_backward_compute_comm_overlap_time", time(self.mean.hidden)));
        }
        fields
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

fn text(words: impl Into<String>) -> Value {
    Value::Text(words.into())
}

fn count(number: usize) -> Value {
    Value::Number(i64::try_from(number).unwrap_or(i64::MAX))
}

fn flag(is_so: bool) -> Value {
    Value::Number(i64::from(is_so))
}

fn time(time: Duration) -> Value {
    Value::Number(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
}

fn join<T: fmt::Display>(values: impl Iterator<Item = T>) -> String {
    let values: Vec<String> = values.map(|value| value.to_string()).collect();
    values.join(", ")
}
