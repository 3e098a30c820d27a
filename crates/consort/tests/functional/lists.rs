//! The ways to say who takes part.

use std::thread;

use consort::functional::{Collective, Ranks, all_gather, all_reduce, broadcast, permute, start};
use consort::{Error, Group, ReduceOp};
use consort_testkit::{Case, conformance};

use crate::meet::{coded, meet};

conformance! { [shm tcp mixed in_process]
    lists_of_every_form_stand_for_their_ranks
    a_list_keeps_its_order
    the_same_list_is_the_same_group
    threads_of_a_rank_can_ask_for_groups_at_once
    lists_that_make_no_sense_are_refused_and_the_group_goes_on
    lists_of_a_part_are_of_its_ranks
}

/// The numbers of those who take part, in their order.
fn who(ranks: impl Ranks, me: u32) -> Vec<u32> {
    all_gather(&vec![me], 0, ranks).unwrap().wait().unwrap()
}

fn lists_of_every_form_stand_for_their_ranks(case: Case) {
    case.run(4, |ctx| {
        let (group, me) = (meet(ctx), ctx.rank());
        let all = [0, 1, 2, 3];
        assert_eq!(who(&group, me), all);
        assert_eq!(who(group.clone(), me), all);
        assert_eq!(who((&group, [0, 1, 2, 3]), me), all);
        if me != 1 {
            let list = vec![0, 2, 3];
            assert_eq!(who((&group, [0, 2, 3]), me), list);
            assert_eq!(who((&group, &[0, 2, 3]), me), list);
            assert_eq!(who((&group, &list[..]), me), list);
            assert_eq!(who((&group, &list), me), list);
            assert_eq!(who((&group, list.clone()), me), list);
            assert_eq!((&group, &list).group().unwrap().calls(), 5);
        }
        let mine: &[u32] = if me < 2 { &[0, 1] } else { &[2, 3] };
        let lists = vec![vec![2, 3], vec![0, 1]];
        let slices: [&[u32]; 2] = [&[0, 1], &[2, 3]];
        assert_eq!(who((&group, [[0, 1], [2, 3]]), me), mine);
        assert_eq!(who((&group, &[[0, 1], [2, 3]]), me), mine);
        assert_eq!(who((&group, &lists), me), mine);
        assert_eq!(who((&group, &lists[..]), me), mine);
        assert_eq!(who((&group, lists), me), mine);
        assert_eq!(who((&group, &slices[..]), me), mine);
        assert_eq!((&group, mine).group().unwrap().calls(), 6);
        // Some take part alone, and some do not at all.
        let uneven: &[&[u32]] = &[&[1], &[3, 0]];
        match me {
            1 => assert_eq!(who((&group, uneven), me), [1]),
            2 => assert!((&group, uneven).group().is_err()),
            _ => assert_eq!(who((&group, uneven), me), [3, 0]),
        }
        assert_eq!(group.calls(), 3);
    });
}

fn a_list_keeps_its_order(case: Case) {
    case.run(3, |ctx| {
        let (group, me) = (meet(ctx), ctx.rank());
        let reversed = [2, 1, 0];
        assert_eq!(who((&group, reversed), me), reversed);
        let part = (&group, reversed).group().unwrap();
        assert_eq!((part.rank().get(), part.world_ranks()), (2 - me, &reversed[..]));
        // Roots, parts and pairs are those of the list.
        let first = broadcast(&vec![me], 0, (&group, reversed)).unwrap().wait().unwrap();
        assert_eq!(first, [2]);
        let next = permute(&vec![me], &[(0, 1)], (&group, reversed)).unwrap().wait().unwrap();
        assert_eq!(next, [if me == 1 { 2 } else { 0 }]);
        let op = ReduceOp::Sum;
        let call = Collective::ReduceScatter { op, dim: 0 };
        let share = start(call, &vec![10_u32, 20, 30], (&group, reversed)).unwrap();
        assert_eq!(share.wait().unwrap(), [[90, 60, 30][me as usize]]);
        let call = Collective::AllGather { dim: 1 };
        let x = coded(me as usize, &[2, 1]);
        let columns = start(call, &x, (&group, reversed)).unwrap().wait().unwrap();
        let right = [2, 1, 0, 2, 1, 0].iter().enumerate();
        let right = right.map(|(at, &rank)| coded(rank, &[2, 1]).numbers()[at / 3]);
        assert_eq!(columns.into_numbers(), right.collect::<Vec<_>>());
    });
}

fn the_same_list_is_the_same_group(case: Case) {
    case.run(3, |ctx| {
        let (group, me) = (meet(ctx), ctx.rank());
        if me == 1 {
            return group.barrier().unwrap();
        }
        for round in 1..=5 {
            assert_eq!(who((&group, [2, 0]), me), [2, 0]);
            let part = (&group, &[2, 0]).group().unwrap();
            assert_eq!((part.name(), part.calls()), ("world/[2,0]", round));
        }
        // Another order is another group.
        assert_eq!(who((&group, [0, 2]), me), [0, 2]);
        let part = group.subgroup(&[0, 2]).unwrap();
        assert_eq!((part.name(), part.calls()), ("world/[0,2]", 1));
        // The list of all is the group, with its own time.
        let hasty = group.within(std::time::Duration::from_secs(33));
        let all = (&hasty, [0, 1, 2]).group().unwrap();
        assert_eq!((all.name(), all.timeout()), ("world", hasty.timeout()));
        let part = (&hasty, [2, 0]).group().unwrap();
        assert_eq!((part.timeout(), part.calls()), (hasty.timeout(), 5));
        assert_eq!((&group, [2, 0]).group().unwrap().timeout(), group.timeout());
        group.barrier().unwrap();
    });
}

fn threads_of_a_rank_can_ask_for_groups_at_once(case: Case) {
    case.run(3, |ctx| {
        let (group, me) = (meet(ctx), ctx.rank());
        let lists: [&[u32]; 6] = [&[0, 1], &[1, 0], &[1, 2], &[2, 0], &[2, 1, 0], &[0, 1, 2]];
        thread::scope(|scope| {
            for list in lists.into_iter().filter(|list| list.contains(&me)) {
                let group = &group;
                scope.spawn(move || {
                    for _ in 0..3 {
                        assert_eq!(who((group, list), me), list);
                    }
                });
            }
            // Many ask for the same.
            let asking = [(); 4].map(|()| scope.spawn(|| (&group, [1, 0, 2]).group().unwrap()));
            for part in asking {
                assert_eq!(part.join().unwrap().name(), "world/[1,0,2]");
            }
        });
        assert_eq!(group.subgroup(&[1, 0, 2]).unwrap().calls(), 0);
        assert_eq!(who((&group, [1, 0, 2]), me), [1, 0, 2]);
    });
}

fn lists_that_make_no_sense_are_refused_and_the_group_goes_on(case: Case) {
    case.run(3, |ctx| {
        let (group, me) = (meet(ctx), ctx.rank());
        let refused = |ranks: &dyn Fn(&Group) -> consort::Result<Group>, words: &str| {
            // Twice, for nothing is made of it.
            for _ in 0..2 {
                let error = ranks(&group).unwrap_err();
                assert!(matches!(error, Error::Argument(_)), "{error}");
                assert!(error.to_string().contains(words), "{error} does not say {words}");
            }
        };
        let others: Vec<u32> = (0..3).filter(|&rank| rank != me).collect();
        refused(&|it| (it, &others).group(), &format!("rank {me} is not on the list"));
        refused(
            &|it| (it, vec![others.clone()]).group(),
            &format!("rank {me} is on none of the lists"),
        );
        refused(&|it| (it, Vec::<u32>::new()).group(), "is not on the list []");
        refused(&|it| (it, Vec::<Vec<u32>>::new()).group(), "is on none of the lists []");
        refused(
            &|it| (it, [me, others[0], me]).group(),
            &format!("rank {me} is on the list twice"),
        );
        refused(&|it| (it, [0, 1, 2, 3]).group(), "there is no rank 3 in a group of 3");
        refused(
            &|it| (it, [[0, 1], [1, 2]]).group(),
            "rank 1 is on the lists [[0, 1], [1, 2]] twice",
        );
        refused(&|it| (it, [[0, 1], [2, 9]]).group(), "there is no rank 9 in a group of 3");
        // The whole call is refused then.
        let error = all_reduce(&vec![1_u8], ReduceOp::Sum, (&group, [7, me])).unwrap_err();
        assert_eq!(error.to_string(), "there is no rank 7 in a group of 3");
        assert_eq!((who(&group, me), group.calls()), (vec![0, 1, 2], 1));
    });
}

fn lists_of_a_part_are_of_its_ranks(case: Case) {
    case.run(4, |ctx| {
        let (group, me) = (meet(ctx), ctx.rank());
        if me == 0 {
            return group.barrier().unwrap();
        }
        let part = (&group, [3, 2, 1]).group().unwrap();
        if me != 2 {
            assert_eq!(who((&part, [2, 0]), me), [1, 3]);
            let ends = (&part, [2, 0]).group().unwrap();
            assert_eq!((ends.world_ranks(), ends.name()), (&[1, 3][..], "world/[3,2,1]/[2,0]"));
        }
        // The list of all in its order is the part itself.
        assert_eq!((&part, [0, 1, 2]).group().unwrap().name(), part.name());
        assert_eq!(who(&part, me), [3, 2, 1]);
        group.barrier().unwrap();
    });
}
