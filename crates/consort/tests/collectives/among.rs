//! Groups that only their members ask for.

use std::thread;
use std::time::Duration;

use consort::{Deadline, Group, ReduceOp, Store};
use consort_store::FileStore;
use consort_testkit::{Case, Kind, conformance};

use super::meet::meet;
use super::subgroups::Costs;
use super::works::works;

conformance! { [shm tcp]
    groups_that_their_members_make_cost_no_memory_descriptors_or_threads
}
conformance! { [shm tcp mixed in_process mpi]
    members_make_a_group_in_any_order_while_the_others_do_something_else
    groups_that_overlap_are_made_at_the_same_time
    members_make_a_group_while_a_call_of_the_one_they_are_part_of_is_under_way
    members_of_a_part_make_a_group_of_some_of_it
    members_with_different_lists_hear_of_both
    a_name_is_used_once
    one_thread_of_a_rank_comes_under_a_name_and_another_is_refused
    lists_that_make_no_sense_are_refused_and_use_no_name_up
    a_group_is_found_by_its_list_and_made_once
    threads_that_ask_for_a_list_at_once_get_one_group
}

fn members_make_a_group_in_any_order_while_the_others_do_something_else(case: Case) {
    case.run(5, |ctx| {
        let group = meet(ctx);
        let calls = group.calls();
        if [4, 0, 3].contains(&ctx.rank()) {
            // Whoever comes last finds all others there.
            thread::sleep(Duration::from_millis(20) * ctx.rank());
            let chosen = group.among("odd ones", &[4, 0, 3]).unwrap();
            assert_eq!(chosen.world_ranks(), [4, 0, 3]);
            assert_eq!(chosen.name(), "world/odd ones");
            assert_eq!((chosen.job(), chosen.timeout()), (group.job(), group.timeout()));
            for (rank, member) in chosen.members().iter().enumerate() {
                let old = &group.members()[chosen.world_ranks()[rank] as usize];
                assert_eq!((member.rank.index(), member.process), (rank, old.process));
            }
            works(&chosen);
        } else {
            let pair = group.among("pair", &[1, 2]).unwrap();
            (0..100).for_each(|_| pair.barrier().unwrap());
            works(&pair);
        }
        assert_eq!(group.calls(), calls);
        works(&group);
    });
}

fn groups_that_overlap_are_made_at_the_same_time(case: Case) {
    case.run(4, |ctx| {
        let group = meet(ctx);
        let me = ctx.rank();
        // A ring of pairs: each rank makes its two in an order that all can keep to.
        let with = |first: u32| {
            let pair = [first, (first + 1) % 4];
            pair.contains(&me).then(|| group.among(&format!("pair {first}"), &pair).unwrap())
        };
        let pairs: Vec<Group> = (0..4).filter_map(with).collect();
        let names: Vec<&str> = pairs.iter().map(Group::name).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        for pair in &pairs {
            let mut ranks = [0; 2];
            pair.all_gather(&[me], &mut ranks).unwrap();
            assert_eq!(ranks, pair.world_ranks());
        }
        let all = group.among("all", &[2, 3, 1, 0]).unwrap();
        pairs.iter().chain([&all, &group]).for_each(works);
    });
}

fn members_make_a_group_while_a_call_of_the_one_they_are_part_of_is_under_way(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        if ctx.rank() == 1 {
            // The others wait for it in that call.
            group.recv(&mut [0_u8], 0, 7).unwrap();
            return group.barrier().unwrap();
        }
        let under_way = group.barrier_async().unwrap();
        let chosen = group.among("meanwhile", &[2, 0]).unwrap();
        works(&chosen);
        assert!(!under_way.is_done());
        chosen.barrier().unwrap();
        if ctx.rank() == 0 {
            group.send(&[1_u8], 1, 7).unwrap();
        }
        under_way.wait().unwrap();
        works(&chosen);
    });
}

fn members_of_a_part_make_a_group_of_some_of_it(case: Case) {
    case.run(6, |ctx| {
        let group = meet(ctx);
        let half = group.split(Some(ctx.rank() % 2), 0).unwrap().unwrap();
        // The same name in both halves, whose names differ.
        let pair = (half.rank() != 1).then(|| half.among("ends", &[2, 0]).unwrap());
        if let Some(pair) = &pair {
            let odd = ctx.rank() % 2;
            assert_eq!(pair.world_ranks(), [4 + odd, odd]);
            assert_eq!(pair.name(), format!("{}/ends", half.name()));
            drop(half);
            drop(group);
            works(pair);
            let alone = pair.among("alone", &[pair.rank().get()]);
            // The name is taken by whoever was first.
            if let Ok(alone) = &alone {
                works(alone);
            }
            let mut made = [0; 2];
            pair.all_gather(&[u32::from(alone.is_ok())], &mut made).unwrap();
            assert_eq!(made[0] + made[1], 1);
        }
    });
}

fn members_with_different_lists_hear_of_both(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let me = ctx.rank();
        let cases: [(&[u32], &[u32]); 2] = [(&[0, 1, 2], &[0, 2, 1]), (&[0, 1, 2], &[0, 2])];
        for (case, (first, last)) in cases.into_iter().enumerate() {
            let list = if me == 2 { last } else { first };
            let error = group.among(&format!("case {case}"), list).unwrap_err().to_string();
            for list in [first, last] {
                assert!(error.contains(&format!("of {list:?}")), "{error}");
            }
            assert!(error.contains("asked for a group \"case "), "{error}");
            assert!(error.ends_with("every member has to give the same list"), "{error}");
        }
        works(&group);
        works(&group.among("case 2", &[2, 1, 0]).unwrap());
    });
}

fn a_name_is_used_once(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let all = group.among("all", &[0, 1, 2]).unwrap();
        // Nobody waits for the others, who are refused as well.
        for list in [&[0, 1, 2][..], &[ctx.rank()]] {
            let error = group.among("all", list).unwrap_err().to_string();
            assert!(error.contains("ranks [0, 1, 2] have used the name \"all\" before"), "{error}");
        }
        works(&all);
        // Another group's names are its own.
        works(&all.among("all", &[1, 2, 0]).unwrap());
        let own = group.among(&format!("{} alone", ctx.rank()), &[ctx.rank()]).unwrap();
        works(&own);
        works(&group);
    });
}

fn one_thread_of_a_rank_comes_under_a_name_and_another_is_refused(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let store = group.store();
        let come = || match group.among("one", &[0, 1]) {
            Ok(made) => Some(made),
            Err(error) => {
                assert!(
                    error.to_string().contains("has come to among(\"one\") already"),
                    "{error}"
                );
                // Only now does the other rank come.
                store.set("refused", b"").unwrap();
                None
            }
        };
        let made: Vec<Group> = if ctx.rank() == 0 {
            thread::scope(|scope| {
                let threads = [scope.spawn(come), scope.spawn(come)];
                threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
            })
        } else {
            store.get("refused", Deadline::never()).unwrap();
            come().into_iter().collect()
        };
        assert_eq!(made.len(), 1);
        works(&made[0]);
    });
}

fn lists_that_make_no_sense_are_refused_and_use_no_name_up(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let refused = |list: &[u32]| group.among("name", list).unwrap_err().to_string();
        assert_eq!(refused(&[0, 1, 0]), "rank 0 is on the list twice");
        assert_eq!(refused(&[0, 1, 2]), "there is no rank 2 in a group of 2");
        let me = ctx.rank();
        let alone = "only those on it call this";
        assert_eq!(refused(&[]), format!("rank {me} is not on the list []: {alone}"));
        let other = 1 - me;
        assert_eq!(refused(&[other]), format!("rank {me} is not on the list [{other}]: {alone}"));
        let strange = group.among("name", &[1, 0]).unwrap();
        works(&strange);
        works(&group.among("a/b#1~2\n", &[0, 1]).unwrap());
    });
}

fn a_group_is_found_by_its_list_and_made_once(case: Case) {
    case.run(5, |ctx| {
        let group = meet(ctx);
        let (me, calls) = (ctx.rank(), group.calls());
        let lists: [&[u32]; 3] = [&[0, 2, 4], &[4, 0], &[1, 3]];
        for list in lists.into_iter().filter(|list| list.contains(&me)) {
            let found = group.subgroup(list).unwrap();
            assert_eq!(found.world_ranks(), list);
            works(&found);
            // Whoever asks later waits for nobody, and says how long its own calls wait.
            let calls = found.calls();
            let again = group.within(Duration::from_secs(7)).subgroup(list).unwrap();
            assert_eq!((again.name(), again.calls()), (found.name(), calls));
            assert_eq!(again.timeout(), Duration::from_secs(7));
        }
        let even = group.subgroup(&[0, 2, 4]).map(|even| even.name().to_owned());
        match me % 2 {
            0 => assert_eq!(even.unwrap(), "world/[0-4:2]"),
            _ => assert!(even.unwrap_err().to_string().contains("is not on the list [0, 2, 4]")),
        }
        assert_eq!(group.calls(), calls);
        // All ranks in their order are the group itself, in another order another one.
        let all = group.subgroup(&[0, 1, 2, 3, 4]).unwrap();
        all.barrier().unwrap();
        assert_eq!((all.name(), group.calls()), ("world", calls + 1));
        works(&group.subgroup(&[4, 3, 2, 1, 0]).unwrap());
        works(&group);
    });
}

fn threads_that_ask_for_a_list_at_once_get_one_group(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        // Each rank is in two pairs; nobody keeps to an order.
        let mut pairs = vec![[0, 1], [1, 2], [2, 0]];
        pairs.retain(|pair| pair.contains(&ctx.rank()));
        if ctx.rank() == 1 {
            pairs.reverse();
        }
        let ask = |pair: [u32; 2]| group.subgroup(&pair).unwrap();
        let found: Vec<Group> = thread::scope(|scope| {
            let asked = [&pairs[..], &pairs[..]].concat();
            let threads: Vec<_> =
                asked.into_iter().map(|pair| scope.spawn(move || ask(pair))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for (one, other) in found[..2].iter().zip(&found[2..]) {
            assert_eq!((one.calls(), other.calls()), (0, 0));
            assert_eq!(one.name(), other.name());
        }
        // In an order that all can keep to.
        for pair in [[0, 1], [1, 2], [2, 0]].iter().filter(|pair| pairs.contains(pair)) {
            let at = pairs.iter().position(|other| other == pair).unwrap();
            found[at].barrier().unwrap();
            assert_eq!(found[at + 2].calls(), 1);
            works(&found[at + 2]);
        }
    });
}

fn groups_that_their_members_make_cost_no_memory_descriptors_or_threads(case: Case) {
    case.run(4, |ctx| {
        let group = meet(ctx);
        let mut made = 0;
        let mut make = || {
            let list = [2, 0, 1];
            if ctx.rank() == 3 {
                return None;
            }
            made += 1;
            let part = group.among(&format!("part {made}"), &list).unwrap();
            // More than fits into a line, so that buffers are needed.
            part.all_reduce(&mut [1.0_f32; 1000], ReduceOp::Sum).unwrap();
            Some(part)
        };
        let costs = || {
            group.barrier().unwrap();
            let costs = Costs::now();
            // The others' memory counts, too.
            group.barrier().unwrap();
            costs
        };
        works(&group);
        let alone = costs();
        let kept: Vec<Group> = (0..4).filter_map(|_| make()).collect();
        let before = costs();
        let is_shared = before.shared_bytes > alone.shared_bytes;
        assert!(is_shared || ctx.kind() != Kind::Shm, "{alone:?} {before:?}");
        for _ in 0..100 {
            make();
        }
        // All have left those. A new group takes their memory.
        group.barrier().unwrap();
        let last = make();
        let after = costs();
        assert_eq!((after.descriptors, after.threads), (before.descriptors, before.threads));
        let four_groups = before.shared_bytes.saturating_sub(alone.shared_bytes);
        assert!(after.shared_bytes <= before.shared_bytes + four_groups, "{before:?} {after:?}");
        kept.iter().chain(&last).chain([&group]).for_each(works);
        // The store remembers the names, and nothing else.
        let store = FileStore::open(ctx.dir().join("meeting")).unwrap();
        let keys = store.list_keys().unwrap();
        let of_groups = || keys.iter().filter(|key| key.contains("/among/"));
        assert!(of_groups().all(|key| key.ends_with("/settled")), "{keys:?}");
        assert_eq!(of_groups().count(), 105);
    });
}
