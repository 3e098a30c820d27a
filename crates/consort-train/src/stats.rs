//! What a reducer has done, for people and for their instruments.

mod fields;
mod tally;

use std::fmt;
use std::time::Duration;

use consort::{Dtype, Space};

pub use self::fields::Value;
pub(crate) use self::tally::Tally;
use crate::options::Unused;
use crate::reducer::Inner;
use crate::times::PassTimes;

/// What a reducer has done so far, and how: [`Reducer::stats`](crate::Reducer::stats) gives it.
///
/// Printed it is a table. [`fields`](Self::fields) has the same under names that people know from
/// PyTorch's `DDPLoggingData`, and [`publish`](Self::publish) gives the figures to whoever collects
/// metrics.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// The group's name.
    pub group: String,
    /// What carries out the group's calls.
    pub backend: &'static str,
    /// This process's number in the group.
    pub rank: u32,
    /// How many ranks there are.
    pub world: usize,
    /// How many parameters there are.
    pub parameters: usize,
    /// How many bytes they have.
    pub parameter_bytes: usize,
    /// What they are made of.
    pub dtypes: Vec<Dtype>,
    /// The communication hook.
    pub hook: String,
    /// The sizes of buckets that are asked for, the last for all that follow.
    pub caps: Vec<usize>,
    /// Whether these were found by measuring ([`Caps::auto`](crate::Caps::auto)).
    pub are_caps_measured: bool,
    /// How much communication they should leave exposed, and those before them, as computed from what was
    /// measured.
    pub promised: Option<(Duration, Duration)>,
    /// How many bytes each bucket has, in the order in which they travel.
    pub bucket_bytes: Vec<usize>,
    /// The parameters in each bucket.
    pub buckets: Vec<Vec<usize>>,
    /// Which memory they lie in.
    pub space: Space,
    /// Whether buckets were made anew in the order in which gradients come.
    pub is_rebuilt: bool,
    /// What becomes of parameters without a gradient.
    pub unused: Unused,
    /// How many bytes of parameters had no gradient on any rank in the last pass.
    pub unused_bytes: usize,
    /// Whether the graph was declared to be static.
    pub is_static: bool,
    /// Whether it could be: in all passes so far the same parameters had gradients.
    pub could_be_static: bool,
    /// How many passes have begun, local ones included.
    pub passes: u64,
    /// How many were averaged with this group.
    pub averaged: u64,
    /// How many buckets travelled in the last of them.
    pub buckets_reduced: usize,
    /// The order in which gradients came in it.
    pub ready_order: Vec<usize>,
    /// When what happened in it.
    pub last: Option<PassTimes>,
    /// The means over all of them.
    pub mean: Means,
    /// Why it has failed, if it has.
    pub error: Option<String>,
}

/// Means over passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Means {
    /// How long forward took, where that was told.
    pub forward: Option<Duration>,
    /// How long backward took.
    pub backward: Duration,
    /// For how long something was on its way.
    pub communication: Duration,
    /// The part of that in which backward was computing.
    pub hidden: Duration,
    /// The rest.
    pub exposed: Duration,
}

impl Stats {
    pub(crate) fn of(inner: &Inner) -> Self {
        let launcher = inner.launcher();
        let state = inner.state();
        let (group, parameters) = (&launcher.group, &inner.parameters);
        let mut dtypes: Vec<Dtype> = parameters.iter().map(|it| it.dtype()).collect();
        dtypes.sort_unstable_by_key(|dtype| dtype.code());
        dtypes.dedup();
        let last = state.tally.last();
        Self {
            group: group.name().to_owned(),
            backend: group.backend_name().unwrap_or("none"),
            rank: group.rank().get(),
            world: group.world(),
            parameters: parameters.len(),
            parameter_bytes: parameters.iter().map(|it| it.bytes()).sum(),
            dtypes,
            hook: launcher.hook.name().to_owned(),
            caps: state.caps.bytes().to_vec(),
            are_caps_measured: state.caps.are_measured(),
            promised: state.advice.as_ref().map(|it| (it.exposed, it.exposed_now)),
            bucket_bytes: state.layout.bytes().to_vec(),
            buckets: state.layout.members().to_vec(),
            space: inner.settings.rules.space(),
            is_rebuilt: state.is_rebuilt,
            unused: inner.settings.unused,
            unused_bytes: state.tally.unused_bytes(),
            is_static: inner.settings.is_static,
            could_be_static: state.tally.is_same_so_far(),
            passes: state.pass,
            averaged: state.averaged,
            buckets_reduced: last.map_or(0, |times| times.buckets.len()),
            ready_order: last.map(ready_order).unwrap_or_default(),
            last: last.cloned(),
            mean: state.tally.means(),
            error: state.failed.as_ref().map(|it| it.text.clone()),
        }
    }

    /// The part of communication that was hidden behind backward, on average, from 0 to 1.
    pub fn overlap(&self) -> f64 {
        let all = self.mean.communication.as_secs_f64();
        if all > 0.0 { self.mean.hidden.as_secs_f64() / all } else { 0.0 }
    }

    /// Gives the figures to whoever collects the process's metrics.
    ///
    /// | metric | |
    /// |---|---|
    /// | `consort_train_passes` | passes that were averaged |
    /// | `consort_train_backward_seconds` | how long backward took, on average |
    /// | `consort_train_communication_seconds` | for how long something was on its way |
    /// | `consort_train_hidden_seconds` | the part of that in which backward was computing |
    /// | `consort_train_exposed_seconds` | the rest |
    /// | `consort_train_gradient_bytes` | how many bytes of gradients travel in a pass |
    /// | `consort_train_buckets` | in how many buckets |
    /// | `consort_train_unused_bytes` | parameters without a gradient, last time |
    pub fn publish(&self) {
        let group = self.group.clone();
        let set = |name: &'static str, value: f64| {
            metrics::gauge!(name, "group" => group.clone()).set(value);
        };
        metrics::counter!("consort_train_passes", "group" => group.clone()).absolute(self.averaged);
        set("consort_train_backward_seconds", self.mean.backward.as_secs_f64());
        set("consort_train_communication_seconds", self.mean.communication.as_secs_f64());
        set("consort_train_hidden_seconds", self.mean.hidden.as_secs_f64());
        set("consort_train_exposed_seconds", self.mean.exposed.as_secs_f64());
        set("consort_train_gradient_bytes", self.bucket_bytes.iter().sum::<usize>() as f64);
        set("consort_train_buckets", self.bucket_bytes.len() as f64);
        set("consort_train_unused_bytes", self.unused_bytes as f64);
    }
}

/// Parameters in the order in which their gradients came.
fn ready_order(times: &PassTimes) -> Vec<usize> {
    let came = times.ready.iter().enumerate().filter_map(|(index, at)| at.map(|at| (at, index)));
    let mut came: Vec<(Duration, usize)> = came.collect();
    came.sort_unstable();
    came.into_iter().map(|(_, index)| index).collect()
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, backend, rank, world, parameters, passes, averaged, hook, .. } = self;
        let megabytes = |bytes: usize| bytes as f64 / 1e6;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        writeln!(f, "group          {group}, rank {rank} of {world}, {backend}")?;
        let bytes = megabytes(self.parameter_bytes);
        writeln!(f, "parameters     {parameters}, {bytes:.3} MB")?;
        let order = if self.is_rebuilt { "in the order in which they come" } else { "as guessed" };
        let on_device = match self.space {
            Space::Host => String::new(),
            device => format!(", on {device}"),
        };
        writeln!(f, "buckets        {}, {order}{on_device}", self.bucket_bytes.len())?;
        if let Some((now, before)) = self.promised {
            let sizes: Vec<String> =
                self.caps.iter().map(|&bytes| format!("{:.3} MB", megabytes(bytes))).collect();
            let (now, before) = (ms(now), ms(before));
            let sizes = sizes.join(", then ");
            writeln!(
                f,
                "sizes          {sizes}, by measuring: {now:.3} ms exposed, not {before:.3}"
            )?;
        }
        writeln!(f, "hook           {hook}")?;
        writeln!(f, "passes         {passes}, {averaged} of them averaged")?;
        let Means { backward, communication, hidden, exposed, .. } = self.mean;
        writeln!(f, "backward       {:.3} ms", ms(backward))?;
        let share = self.overlap() * 100.0;
        write!(
            f,
            "communication  {:.3} ms: {:.3} hidden ({share:.0} %), {:.3} exposed",
            ms(communication),
            ms(hidden),
            ms(exposed)
        )?;
        match &self.error {
            Some(error) => write!(f, "\nfailed         {error}"),
            None => Ok(()),
        }
    }
}
