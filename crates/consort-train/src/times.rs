//! When what happened in a pass.

use std::time::{Duration, Instant};

/// When what happened in a backward pass whose gradients were averaged. Times are counted from when the
/// pass began.
///
/// ```
/// use consort::Dtype;
/// use consort_train::{Options, Parameter, Reducer};
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let parameters = vec![Parameter::new("weight", Dtype::F32, &[2, 2])];
/// let reducer = Reducer::new(&group, parameters, Options::new())?;
/// let pass = reducer.begin()?;
/// pass.ready(0, &[1.0_f32; 4])?;
/// drop(pass.finish()?);
///
/// let times = reducer.times().expect("a pass was averaged");
/// assert_eq!(times.communication, times.hidden + times.exposed);
/// assert!(times.ready[0].is_some_and(|ready| ready <= times.backward));
/// # Ok::<(), consort_train::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassTimes {
    /// Which pass it was.
    pub pass: u64,
    /// How long forward took, if the reducer was [told](crate::Reducer::begin_forward) when it began.
    pub forward: Option<Duration>,
    /// How long backward took: from the beginning of the pass until its end was declared.
    pub backward: Duration,
    /// For how long something was on its way.
    pub communication: Duration,
    /// The part of that in which backward was computing.
    pub hidden: Duration,
    /// The rest: nothing was computed meanwhile.
    pub exposed: Duration,
    /// When each parameter's gradient was ready; `None` if none came.
    pub ready: Vec<Option<Duration>>,
    /// The buckets, in the order in which they travelled.
    pub buckets: Vec<BucketTimes>,
}

/// When a bucket was on its way, counted from when its pass began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketTimes {
    /// Which bucket it is.
    pub index: usize,
    /// How many bytes of gradients it has.
    pub bytes: usize,
    /// When it was handed to the group.
    pub launched: Duration,
    /// When it was averaged.
    pub done: Duration,
}

/// What is noted while a pass runs.
#[derive(Debug)]
pub(crate) struct Record {
    forward: Option<Instant>,
    began: Instant,
    ended: Option<Instant>,
    ready: Vec<Option<Instant>>,
    sent: Vec<Sent>,
}

#[derive(Debug)]
struct Sent {
    bytes: usize,
    launched: Instant,
    done: Option<Instant>,
}

impl Record {
    /// Of a pass with so many parameters, whose forward pass began then, if that is known.
    pub(crate) fn new(parameters: usize, forward: Option<Instant>, now: Instant) -> Self {
        Self { forward, began: now, ended: None, ready: vec![None; parameters], sent: Vec::new() }
    }

    /// A parameter's gradient is in its bucket.
    pub(crate) fn ready(&mut self, parameter: usize, now: Instant) {
        self.ready[parameter] = Some(now);
    }

    /// The next bucket is on its way.
    pub(crate) fn launched(&mut self, bytes: usize, now: Instant) {
        self.sent.push(Sent { bytes, launched: now, done: None });
    }

    /// Backward has computed its last gradient.
    pub(crate) fn ended(&mut self, now: Instant) {
        self.ended.get_or_insert(now);
    }

    /// A bucket is averaged.
    pub(crate) fn done(&mut self, bucket: usize, at: Instant) {
        if let Some(sent) = self.sent.get_mut(bucket) {
            sent.done = Some(at);
        }
    }

    /// What it comes to.
    pub(crate) fn times(&self, pass: u64) -> PassTimes {
        let since = |at: Instant| at.saturating_duration_since(self.began);
        let backward = self.ended.map_or(Duration::ZERO, since);
        let bucket = |(index, sent): (usize, &Sent)| {
            let launched = since(sent.launched);
            let done = sent.done.map_or(launched, since).max(launched);
            BucketTimes { index, bytes: sent.bytes, launched, done }
        };
        let buckets: Vec<BucketTimes> = self.sent.iter().enumerate().map(bucket).collect();
        let (communication, hidden) = on_the_way(&buckets, backward);
        PassTimes {
            pass,
            forward: self.forward.map(|at| self.began.saturating_duration_since(at)),
            backward,
            communication,
            hidden,
            exposed: communication - hidden,
            ready: self.ready.iter().map(|at| at.map(since)).collect(),
            buckets,
        }
    }
}

/// For how long any of these was on its way, in all and before backward had ended.
fn on_the_way(buckets: &[BucketTimes], backward: Duration) -> (Duration, Duration) {
    let (mut all, mut hidden) = (Duration::ZERO, Duration::ZERO);
    // They are launched one after the other, so what is counted grows at its end only.
    let mut counted = Duration::ZERO;
    for bucket in buckets {
        let from = bucket.launched.max(counted);
        if bucket.done > from {
            all += bucket.done - from;
            hidden += bucket.done.min(backward).saturating_sub(from);
            counted = bucket.done;
        }
    }
    (all, hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn time_on_the_way_is_counted_once_and_parted_where_backward_ends() {
        let now = Instant::now();
        let mut record = Record::new(2, Some(now - ms(7)), now);
        record.ready(1, now + ms(10));
        record.launched(100, now + ms(10));
        record.launched(200, now + ms(15));
        record.ended(now + ms(30));
        record.launched(300, now + ms(31));
        record.done(0, now + ms(20));
        record.done(1, now + ms(40));
        record.done(2, now + ms(45));
        let times = record.times(3);
        assert_eq!((times.pass, times.forward, times.backward), (3, Some(ms(7)), ms(30)));
        assert_eq!((times.communication, times.hidden, times.exposed), (ms(35), ms(20), ms(15)));
        assert_eq!(times.ready, [None, Some(ms(10))]);
        let on_their_way: Vec<_> = times.buckets.iter().map(|it| (it.launched, it.done)).collect();
        assert_eq!(on_their_way, [(ms(10), ms(20)), (ms(15), ms(40)), (ms(31), ms(45))]);
    }

    #[test]
    fn gaps_between_buckets_are_not_counted() {
        let now = Instant::now();
        let mut record = Record::new(0, None, now);
        record.launched(1, now + ms(1));
        record.launched(1, now + ms(5));
        record.done(0, now + ms(2));
        record.done(1, now + ms(7));
        record.ended(now + ms(6));
        let times = record.times(1);
        assert_eq!((times.communication, times.hidden), (ms(3), ms(2)));
    }
}
