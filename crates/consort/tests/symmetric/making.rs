//! How memory is had, and given back.

use consort::symm::Options;
use consort::{Error, ErrorKind, Group, ReduceOp};
use consort_testkit::{names_in_shared_memory, ranks};

use super::{committed, meet};

#[test]
fn ranks_that_ask_for_different_memory_all_see_the_difference_and_go_on() {
    let errors = ranks(3, |ctx| {
        let group = meet(ctx);
        let odd = ctx.rank() == 1;
        let channels = Options::new().channels(if odd { 5 } else { 4 });
        let before = committed(&group);
        let errors = [
            group.symmetric::<f32>(if odd { 65 } else { 64 }).unwrap_err(),
            if odd { none(group.symmetric::<i32>(64)) } else { none(group.symmetric::<f32>(64)) },
            group.symmetric_with::<f32>(64, &channels).unwrap_err(),
            if odd { none(group.pool(64)) } else { none(group.symmetric::<u8>(64)) },
            none(group.symmetric_with::<u8>(
                8,
                &Options::new().persistent(if odd { "one" } else { "other" }),
            )),
        ];
        assert_eq!(committed(&group), before);
        // The group goes on, and so does its memory.
        let memory = group.symmetric::<i32>(1_024).unwrap();
        memory.local().unwrap().fill(1);
        memory.two_shot_all_reduce(ReduceOp::Sum).unwrap();
        assert_eq!(memory.local().unwrap()[1_023], 3);
        group.barrier().unwrap();
        assert!(errors.iter().all(|error| error.kind() == ErrorKind::Mismatch));
        errors.map(|error| error.to_string())
    });
    let expected = [
        "  length: 64 on ranks 0, 2, 65 on rank 1",
        "  type: f32 on ranks 0, 2, i32 on rank 1",
        "  channels: 4 on ranks 0, 2, 5 on rank 1",
        "  asked for: a pool on rank 1, memory on ranks 0, 2\n  \
         channels: 0 on rank 1, 16 on ranks 0, 2\n  type: bytes on rank 1, u8 on ranks 0, 2",
    ];
    for errors in errors {
        for (error, expected) in errors.iter().zip(expected) {
            let words = "group world: the ranks cannot all have this symmetric memory";
            assert_eq!(*error, format!("{words}\n{expected}"));
        }
        assert!(errors[4].contains("\n  id: ") && errors[4].contains("… on rank 1"), "{errors:?}");
    }
}

fn none<T: std::fmt::Debug>(made: consort::Result<T>) -> Error {
    made.unwrap_err()
}

#[test]
fn memory_that_one_rank_cannot_have_no_rank_has() {
    let errors = ranks(3, |ctx| {
        let group = meet(ctx);
        let before = committed(&group);
        let len = if ctx.rank() == 1 { usize::MAX / 4 } else { 64 };
        let impossible = group.symmetric::<u64>(len).unwrap_err();
        // More than any machine has.
        let huge = group.symmetric::<u8>(1 << 46).unwrap_err();
        assert!(matches!(huge, Error::Memory(_)), "{huge}");
        let many = group.symmetric_with::<u8>(1, &Options::new().channels(1 << 50)).unwrap_err();
        assert!(matches!(many, Error::Memory(_)), "{many}");
        assert_eq!(committed(&group), before);
        group.symmetric::<u8>(1).unwrap().barrier(0).unwrap();
        impossible.to_string()
    });
    assert!(errors[1].contains("u64 are more than can be addressed"), "{}", errors[1]);
    for rank in [0, 2] {
        let error = &errors[rank];
        assert!(error.contains("memory: impossible on rank 1, to be had on ranks 0, 2"), "{error}");
    }
}

#[test]
fn memory_is_given_back_when_every_rank_has_dropped_it() {
    ranks(3, |ctx| {
        let group = meet(ctx);
        let before = committed(&group);
        for round in 0..20 {
            let memory = group.symmetric::<u8>(4 << 20).unwrap();
            assert!(memory.local().unwrap().iter().all(|&byte| byte == 0));
            memory.barrier(0).unwrap();
            memory.peer((ctx.rank() + 1) % 3).unwrap().fill(round);
            memory.barrier(0).unwrap();
            // Another rank leaves last each time.
            let last = (ctx.rank() == u32::from(round) % 3).then_some(memory);
            group.barrier().unwrap();
            drop(last);
        }
        assert_eq!(committed(&group), before);
    });
}

#[test]
fn memory_that_a_rank_still_holds_stays_readable_when_others_drop_it() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        let memory = group.symmetric::<u32>(1_000).unwrap();
        memory.local().unwrap().fill(ctx.rank() + 7);
        memory.barrier(0).unwrap();
        let memory = (ctx.rank() == 0).then_some(memory);
        group.barrier().unwrap();
        // Rank 1 has dropped it, and asks for more.
        let other = group.symmetric::<u32>(1_000).unwrap();
        other.local().unwrap().fill(99);
        if let Some(memory) = memory {
            assert!(memory.peer(1).unwrap().iter().all(|&element| element == 8));
        }
        group.barrier().unwrap();
    });
}

#[test]
fn subgroups_give_their_memory_back_too() {
    ranks(3, |ctx| {
        let group = meet(ctx);
        let round = |group: &Group| {
            let part = group.split(Some(ctx.rank() % 2), 0).unwrap().unwrap();
            part.barrier().unwrap();
            part.symmetric::<u8>(1 << 20).unwrap();
        };
        round(&group);
        let before = committed(&group);
        (0..30).for_each(|_| round(&group));
        assert_eq!(committed(&group), before);
    });
}

#[test]
fn persistent_memory_is_the_same_when_it_is_asked_for_again() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        let options = Options::new().persistent("weights");
        let memory = group.symmetric_with::<u32>(100, &options).unwrap();
        memory.local().unwrap().fill(ctx.rank() + 1);
        memory.put_signal(1 - ctx.rank(), 2).unwrap();
        let error = group.symmetric_with::<u32>(100, &options).unwrap_err();
        assert!(error.to_string().contains("\"weights\" is in use"), "{error}");
        drop(memory);
        for wrong in [
            none(group.symmetric_with::<u32>(101, &options)),
            none(group.symmetric_with::<f32>(100, &options)),
            none(group.symmetric_with::<u32>(100, &options.clone().channels(3))),
        ] {
            let words = "\"weights\" is kept as 100 u32 with 16 channels";
            assert!(wrong.to_string().contains(words), "{wrong}");
        }
        let memory = group.symmetric_with::<u32>(100, &options).unwrap();
        assert_eq!(memory.peer(1 - ctx.rank()).unwrap()[..], [2 - ctx.rank(); 100]);
        memory.wait_signal(1 - ctx.rank(), 2).unwrap();
        memory.barrier(0).unwrap();
        drop(memory);

        // A rank that alone has let go of it would get other memory than the others have.
        if ctx.rank() == 0 {
            assert!(group.release_symmetric("weights") && !group.release_symmetric("weights"));
        }
        let error = group.symmetric_with::<u32>(100, &options).unwrap_err().to_string();
        assert!(error.contains("  made: from request 1 on rank 1, new on rank 0"), "{error}");
        group.release_symmetric("weights");
        let memory = group.symmetric_with::<u32>(100, &options).unwrap();
        assert_eq!(memory.local().unwrap()[..], [0; 100]);
        group.barrier().unwrap();
    });
}

#[test]
fn a_rank_in_use_of_persistent_memory_keeps_all_from_it() {
    let errors = ranks(2, |ctx| {
        let group = meet(ctx);
        let options = Options::new().persistent("shared");
        let memory = group.symmetric_with::<u8>(1, &options).unwrap();
        let kept = (ctx.rank() == 1).then_some(memory);
        let error = group.symmetric_with::<u8>(1, &options).unwrap_err().to_string();
        drop(kept);
        group.symmetric_with::<u8>(1, &options).unwrap();
        error
    });
    assert!(
        errors[0].contains("memory: still in use on rank 1, to be had on rank 0"),
        "{errors:?}"
    );
    assert!(errors[1].contains("\"shared\" is in use: drop its handle first"), "{errors:?}");
}

#[test]
fn nothing_has_a_name_in_the_file_system() {
    ranks(2, |ctx| {
        let memory = meet(ctx).symmetric::<u8>(1 << 20).unwrap();
        memory.barrier(0).unwrap();
        assert_eq!(names_in_shared_memory(), [""; 0]);
        memory.barrier(0).unwrap();
    });
}
