//! Groups of some of the ranks.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use consort::{Error, Group, ReduceOp};
use consort_testkit::{Case, Kind, conformance};

use super::meet::meet;
use super::works::works;

conformance! { [shm tcp]
    groups_that_come_and_go_cost_no_memory_descriptors_or_threads
}
conformance! { [shm tcp mixed in_process mpi]
    keys_say_the_order_and_ranks_where_keys_are_equal
    colours_part_a_group_and_the_parts_work_at_the_same_time
    ranks_with_different_lists_hear_of_both_and_the_group_goes_on
    a_list_says_who_belongs_to_a_new_group_and_in_which_order
    a_part_can_be_parted_again_and_outlives_what_it_is_a_part_of
}

fn keys_say_the_order_and_ranks_where_keys_are_equal(case: Case) {
    case.run(5, |ctx| {
        let group = meet(ctx);
        let me = ctx.rank();
        let reversed = group.split(Some(0), -i64::from(me)).unwrap().unwrap();
        assert_eq!(reversed.world_ranks(), [4, 3, 2, 1, 0]);
        assert_eq!(reversed.rank().get(), 4 - me);
        works(&reversed);

        let as_before = group.split(Some(0), 7).unwrap().unwrap();
        assert_eq!(as_before.world_ranks(), [0, 1, 2, 3, 4]);
        works(&as_before);

        let far_apart = if me == 3 { i64::MIN } else { i64::MAX };
        let first = group.split(Some(u32::MAX), far_apart).unwrap().unwrap();
        assert_eq!(first.world_ranks(), [3, 0, 1, 2, 4]);
        works(&first);
    });
}

fn colours_part_a_group_and_the_parts_work_at_the_same_time(case: Case) {
    case.run(5, |ctx| {
        let group = meet(ctx);
        let me = ctx.rank();
        let part = group.split(Some(me % 2), i64::from(me)).unwrap().unwrap();
        let expected: &[u32] = if me % 2 == 0 { &[0, 2, 4] } else { &[1, 3] };
        assert_eq!(part.world_ranks(), expected);
        for (rank, member) in part.members().iter().enumerate() {
            assert_eq!(member.rank.index(), rank);
            assert_eq!(member.process, group.members()[expected[rank] as usize].process);
        }
        assert_eq!((part.job(), part.timeout()), (group.job(), group.timeout()));
        works(&part);
        // A number of calls that differs between the parts is nobody else's business.
        (0..=me % 2 * 9).for_each(|_| part.barrier().unwrap());
        works(&group);
        works(&part);
        part.name().to_owned()
    })
    .iter()
    .zip([0, 1, 0, 1, 0])
    .for_each(|(name, colour)| assert!(name.starts_with(&format!("world/{colour}#")), "{name}"));
}

fn ranks_with_different_lists_hear_of_both_and_the_group_goes_on(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let me = ctx.rank();
        let cases: [(&[u32], &[u32]); 3] =
            [(&[0, 1], &[1, 0]), (&[0, 1, 2], &[0, 2]), (&[0], &[2])];
        for (first, last) in cases {
            let list = if me == 2 { last } else { first };
            let error = group.new_group(list).unwrap_err().to_string();
            for (rank, list) in [(0, first), (2, last)] {
                let said = format!("rank {rank} asked for a new group of {list:?}");
                assert!(error.contains(&said), "{error}");
            }
        }
        let error = match me {
            1 => group.split(Some(0), 0).unwrap_err(),
            _ => group.new_group(&[0, 1, 2]).unwrap_err(),
        };
        assert!(error.to_string().contains("but rank 1 called split"), "{error}");
        works(&group);
    });
}

fn a_list_says_who_belongs_to_a_new_group_and_in_which_order(case: Case) {
    case.run(4, |ctx| {
        let group = meet(ctx);
        match (ctx.rank(), group.new_group(&[3, 0, 2]).unwrap()) {
            (1, None) => {}
            (1, Some(_)) => panic!("rank 1 was not on the list"),
            (_, chosen) => {
                let chosen = chosen.unwrap();
                assert_eq!(chosen.world_ranks(), [3, 0, 2]);
                assert_eq!([3, 1].map(|rank| chosen.rank_of(rank)), [Some(0.into()), None]);
                works(&chosen);
            }
        }
        assert!(group.new_group(&[]).unwrap().is_none());
        assert!(group.split(None, 0).unwrap().is_none());
        let wrong = [&[0, 1, 0][..], &[0, 4]].map(|list| group.new_group(list).unwrap_err());
        assert!(matches!(wrong, [Error::Argument(_), Error::Argument(_)]));
        assert_eq!(wrong[0].to_string(), "rank 0 is on the list twice");
        assert_eq!(wrong[1].to_string(), "there is no rank 4 in a group of 4");
        works(&group);
    });
}

fn a_part_can_be_parted_again_and_outlives_what_it_is_a_part_of(case: Case) {
    case.run(8, |ctx| {
        let group = meet(ctx);
        let half = group.split(Some(ctx.rank() / 4), 0).unwrap().unwrap();
        let backwards = -i64::from(half.rank().get());
        let pair = half.split(Some(half.rank().get() / 2), backwards).unwrap().unwrap();
        drop(half);
        drop(group);
        let first = ctx.rank() / 2 * 2;
        assert_eq!(pair.world_ranks(), [first + 1, first]);
        works(&pair);
        let alone = pair.split(Some(ctx.rank()), 0).unwrap().unwrap();
        assert_eq!(alone.world_ranks(), [ctx.rank()]);
        works(&alone);
        works(&pair);
    });
}

fn groups_that_come_and_go_cost_no_memory_descriptors_or_threads(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let make = || {
            let part = group.split(Some(0), -i64::from(ctx.rank())).unwrap().unwrap();
            // More than fits into a line, so that buffers are needed.
            part.all_reduce(&mut [1.0_f32; 1000], ReduceOp::Sum).unwrap();
            part
        };
        group.barrier().unwrap();
        let alone = Costs::now();
        let kept: Vec<Group> = (0..4).map(|_| make()).collect();
        group.barrier().unwrap();
        let before = Costs::now();
        let is_shared = before.shared_bytes > alone.shared_bytes;
        assert!(is_shared || ctx.kind() != Kind::Shm, "{alone:?} {before:?}");
        for _ in 0..100 {
            make();
        }
        group.barrier().unwrap();
        // A new group takes the memory of those that everyone has left.
        let last = make();
        let after = Costs::now();
        assert_eq!((after.descriptors, after.threads), (before.descriptors, before.threads));
        let four_groups = before.shared_bytes.saturating_sub(alone.shared_bytes);
        assert!(after.shared_bytes <= before.shared_bytes + four_groups, "{before:?} {after:?}");
        kept.iter().chain([&last, &group]).for_each(works);
    });
}

/// What this process holds.
#[derive(Debug)]
pub(crate) struct Costs {
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
    /// Of its own memory and that of others.
    pub(crate) shared_bytes: u64,
}

impl Costs {
    pub(crate) fn now() -> Self {
        let names = |path: &str| -> Vec<PathBuf> {
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect()
        };
        let descriptors = names("/proc/self/fd");
        let is_shared = |path: &&PathBuf| {
            let file = fs::read_link(path).unwrap_or_default();
            let file = file.to_string_lossy();
            // Records are kept of groups that are gone, too, up to a number.
            file.starts_with("/memfd:") && !file.contains("consort-record")
        };
        let blocks = |path: &PathBuf| fs::metadata(path).unwrap().blocks();
        let shared_bytes = descriptors.iter().filter(is_shared).map(blocks).sum::<u64>() * 512;
        let threads = names("/proc/self/task").len();
        Self { descriptors: descriptors.len(), threads, shared_bytes }
    }
}
