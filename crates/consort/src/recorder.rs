//! Where this rank writes down what it does, for `consort trace`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use consort_sys::record::{About, Journal, Recording, Snapshot};

use crate::builder::Invitation;
use crate::debug::DebugLevel;

/// A rank's recording: in a file where it is told of a folder, otherwise in memory of its own. A job
/// does not fail for want of it.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// `None` if there is no memory for it.
    recording: Option<Arc<Recording>>,
    rank: u32,
    level: DebugLevel,
    /// If it is in a file: where.
    folder: Option<PathBuf>,
}

impl Recorder {
    /// For somebody who only pretends to be a rank.
    pub(crate) fn none() -> Self {
        Self { recording: None, folder: None, rank: 0, level: DebugLevel::Off }
    }

    pub(crate) fn begin(invitation: &Invitation) -> Self {
        let Invitation { rank, world, epoch, job, trace_dir, debug, .. } = invitation;
        let sites = *debug >= DebugLevel::Detail;
        let about = About { rank: *rank, world: *world, epoch: *epoch, job, sites };
        let in_file = |folder: &Path| {
            let path = path_in(folder, *rank);
            let made = Recording::in_file(&path, &about);
            warn(made, &format!("rank {rank} leaves no record in {}", folder.display()))
        };
        let recording = trace_dir.as_deref().and_then(in_file);
        let folder = trace_dir.clone().filter(|_| recording.is_some());
        let recording = recording.or_else(|| {
            warn(Recording::private(&about), &format!("rank {rank} does not record its calls"))
        });
        Self { recording, folder, rank: *rank, level: *debug }
    }

    /// Says that this rank is in a group that was formed.
    pub(crate) fn tell_of(&self, group: &str, rank: u32, world: usize, hosts: u32, how: &str) {
        let place = format_args!("rank {rank} of {world}, hosts: {hosts}, over {how}");
        self.level.say(self.rank, format_args!("group {group} is formed: {place}"));
    }

    /// The journal of a group.
    pub(crate) fn journal(&self, group: &str, rank: u32, members: &[u32]) -> Option<Journal> {
        let made = self.recording.as_ref()?.journal(group, rank, members);
        let journal = warn(made, &format!("the calls of group {group} are not recorded"))?;
        if journal.is_none() {
            tracing::debug!(
                "the calls of group {group} are not recorded: there are too many groups"
            );
        }
        journal
    }

    /// The folder that it is in, if it is in one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Under which descriptor others of this host find it, if they can.
    pub(crate) fn descriptor(&self) -> Option<u32> {
        self.recording.as_ref()?.descriptor()
    }

    /// What was written down so far.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        self.recording.as_deref().map(Snapshot::of)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(recording) = &self.recording {
            recording.take_leave();
        }
    }
}

/// Where a rank of the world leaves its record in a folder.
pub(crate) fn path_in(folder: &Path, rank: u32) -> PathBuf {
    folder.join(file_name(rank))
}

/// How the file of a rank is called.
fn file_name(rank: u32) -> String {
    format!("{PREFIX}{rank}")
}

/// Whose file is called so.
pub(crate) fn rank_in(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.parse().ok().filter(|&rank| file_name(rank) == name)
}

const PREFIX: &str = "rank-";

fn warn<T>(made: std::io::Result<T>, what: &str) -> Option<T> {
    made.inspect_err(|error| tracing::warn!(%error, "{what}")).ok()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};
    use std::{fs, thread};

    use super::*;
    use crate::trace::RankTrace;
    use crate::{Builder, ReduceOp};

    /// What is recorded once a rank has left all its groups: the thread that carried out asynchronous
    /// calls may be about to let go of one.
    fn once_left(path: &Path) -> RankTrace {
        let began = Instant::now();
        loop {
            let trace = crate::trace::read(path).unwrap();
            if trace.has_left && trace.groups.iter().all(|group| group.has_left) {
                return trace;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "{trace:?}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_folder_that_is_not_there_fails_no_job() {
        let group = Builder::new().rank(0).world(1).trace_dir("/nosuch").init().unwrap();
        group.barrier().unwrap();
        assert_eq!(group.trace().unwrap().groups[0].made, 1);
    }

    #[test]
    fn calls_of_all_kinds_and_groups_are_recorded_until_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file_name(0));
        let group = Builder::new().rank(0).world(1).trace_dir(folder.path()).init().unwrap();
        group.all_reduce(&mut [1.0_f64; 3], ReduceOp::Max).unwrap();
        group.all_reduce_async(vec![1_u8; 10], ReduceOp::Sum).unwrap().wait().unwrap();
        let some = group.split(Some(7), 0).unwrap().unwrap();
        some.barrier().unwrap();
        drop((group, some));
        let trace = once_left(&path);
        let [world, part] = &trace.groups[..] else { panic!("{trace:?}") };
        let texts: Vec<String> = world.calls.iter().map(ToString::to_string).collect();
        assert_eq!(texts[..2], ["all_reduce(max) of 3 f64", "all_reduce(sum) of 10 u8"]);
        assert!(world.calls[0].queued.is_none() && world.calls[1].queued.is_some());
        assert!(world.calls.iter().all(|call| call.ended.is_some() && !call.has_failed));
        assert_eq!(world.bytes, 34 + world.calls[2..].iter().map(|it| it.bytes()).sum::<u64>());
        assert_eq!((part.calls.len(), part.in_world(0)), (1, Some(0)));
    }

    #[test]
    fn calls_of_all_kinds_say_where_they_were_made_if_that_is_asked_for() {
        let builder = Builder::new().rank(0).world(1).debug(DebugLevel::Detail);
        let group = builder.init().unwrap();
        let mut numbers = [1.0_f32];
        let first = line!() + 1;
        group.barrier().unwrap();
        group.all_reduce_async(vec![1_u8; 10], ReduceOp::Sum).unwrap().wait().unwrap();
        group.scope(|s| s.all_reduce(&mut numbers, ReduceOp::Sum)).unwrap();
        let noted = group.coalesced(|calls| Ok(calls.all_reduce(vec![1_u8], ReduceOp::Sum)?));
        noted.unwrap().wait().unwrap();
        group.all_reduce_coalesced(&mut [&mut [1_u8][..]], ReduceOp::Sum).unwrap();
        let trace = group.trace().unwrap();
        let lines = trace.groups[0].calls.iter().map(|call| {
            let site = trace.site(call).unwrap();
            let (file, line) = site.rsplit_once(':').unwrap();
            assert!(file.ends_with("recorder.rs"), "{site}");
            line.parse::<u32>().unwrap() - first
        });
        assert_eq!(lines.collect::<Vec<_>>(), [0, 1, 2, 3, 5]);
    }

    #[test]
    fn where_calls_are_made_is_not_noted_unless_it_is_asked_for() {
        let group = Builder::new().rank(0).world(1).init().unwrap();
        group.barrier().unwrap();
        let trace = group.trace().unwrap();
        assert_eq!((trace.sites.len(), trace.site(&trace.groups[0].calls[0])), (0, None));
    }

    #[test]
    fn the_time_in_which_numbers_are_combined_is_part_of_a_large_call() {
        let group = Builder::new().rank(0).world(1).init().unwrap();
        group.all_reduce(&mut vec![1.0_f32; 1 << 20], ReduceOp::Sum).unwrap();
        group.all_reduce(&mut [1.0_f32; 4], ReduceOp::Sum).unwrap();
        group.broadcast(&mut vec![1.0_f32; 1 << 20], 0).unwrap();
        let trace = group.trace().unwrap();
        let [large, small, moved] = trace.groups[0].calls[..] else { panic!("{trace:?}") };
        assert!(large.reducing > 0, "{large:?}");
        assert!(large.reducing <= large.ended.unwrap() - large.began, "{large:?}");
        assert_eq!((small.reducing, moved.reducing), (0, 0));
        assert_eq!(trace.groups[0].reducing, large.reducing);
        assert_eq!((trace.groups[0].ended, trace.groups[0].failed), (3, 0));
    }

    #[test]
    fn files_of_ranks_are_told_from_others() {
        assert_eq!(rank_in(&file_name(12)), Some(12));
        for other in ["rank-", "rank-01", "rank-1.new", "launcher", "rank--1"] {
            assert_eq!(rank_in(other), None, "{other}");
        }
    }

    #[test]
    fn a_rank_that_comes_again_writes_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        for epoch in [1, 2] {
            let builder = Builder::new().rank(0).world(1).job("again").epoch(epoch);
            drop(builder.trace_dir(folder.path()).init().unwrap());
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(crate::trace::read(&folder.path().join(file_name(0))).unwrap().epoch, 2);
    }
}
