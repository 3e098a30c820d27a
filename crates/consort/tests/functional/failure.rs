//! Calls that fail: whoever uses their values hears why, every time.

use consort::functional::{Collective, Meta, Pending, all_reduce, coalesced, permute, recv};
use consort::{Dtype, Error, ErrorKind, Group, ReduceOp};
use consort_testkit::{Case, Outcome, conformance};

use crate::meet::{LARGE, SOON, alone, block_on, meet, mine};

conformance! { [shm tcp mixed] a_killed_rank_is_named_by_all_values }
conformance! { [shm tcp mixed in_process]
    an_abort_is_told_by_all_values
    an_abort_of_another_rank_is_told_by_all_values
    a_deadline_is_told_by_all_values
    a_message_that_does_not_come_in_time_is_an_error
}

/// Calls of all kinds that have begun, and what was made of them.
fn begin(group: &Group) -> Vec<Pending<usize>> {
    let len = |it: Vec<f32>| Ok::<usize, Error>(it.len());
    let x = mine(group, LARGE);
    let sums = all_reduce(&x, ReduceOp::Sum, group).unwrap();
    let everyone = (0..group.world() as u32).map(|rank| (rank, (rank + 1) % group.world() as u32));
    let circle: Vec<_> = everyone.collect();
    let pairs = circle.iter().map(|&(from, to)| (from.into(), to.into())).collect();
    let both = [(Collective::AllGather { dim: 0 }, &x), (Collective::Permute { pairs }, &x)];
    vec![
        sums.clone().map(len),
        sums.clone().map(len).map(|len| Ok::<_, Error>(len + 1)),
        permute(&x, &circle, group).unwrap().map(len),
        coalesced(&both, group).unwrap().map(|both| Ok::<_, Error>(both.len())),
        Pending::all([Pending::ready(vec![]), sums.clone()]).map(|all| Ok::<_, Error>(all.len())),
        sums.map(len),
    ]
}

/// What a value says each time it is asked, by itself and by its clones.
fn told(value: Pending<usize>) -> Error {
    let clone = value.clone();
    let later = clone.clone().map(|_| Ok::<(), Error>(()));
    let error = value.get().unwrap_err();
    assert!(value.is_done() && clone.is_done() && later.is_done());
    let words = error.to_string();
    assert_eq!(format!("{value:?}"), format!("Pending({words})"));
    let asked = [
        value.get().unwrap_err(),
        value.wait().unwrap_err(),
        clone.get().unwrap_err(),
        block_on(clone.clone()).unwrap_err(),
        block_on(later).unwrap_err(),
        clone.map(|_| Ok::<(), Error>(())).wait().unwrap_err(),
    ];
    for again in asked {
        assert_eq!((again.kind(), again.to_string()), (error.kind(), words.clone()));
    }
    error
}

fn a_killed_rank_is_named_by_all_values(case: Case) {
    let mut job = case.of(3).start(|ctx| {
        let group = meet(ctx);
        group.barrier().unwrap();
        if ctx.rank() == 2 {
            ctx.reach("here");
            let _: bool = ctx.told("never");
        }
        let values = begin(&group);
        ctx.reach("here");
        let errors: Vec<Error> = values
            .into_iter()
            .enumerate()
            .filter_map(|(at, value)| {
                // Of those that permute, one does not need the dead.
                if at == 2 && ctx.rank() == 1 {
                    return value.wait().err();
                }
                Some(told(value))
            })
            .collect();
        assert!(errors.iter().all(|error| error.kind() == ErrorKind::PeerGone), "{errors:?}");
        let again = all_reduce(&vec![1_u8], ReduceOp::Sum, &group).unwrap().wait().unwrap_err();
        assert_eq!(again.to_string(), errors[0].to_string());
        errors.iter().map(Error::to_string).collect::<Vec<_>>()
    });
    for rank in 0..3 {
        job.await_point(rank, "here");
    }
    job.kill(2);
    let outcomes = job.wait();
    assert_eq!(outcomes[2], Outcome::Signalled(9));
    for outcome in &outcomes[..2] {
        let Outcome::Done(errors) = outcome else { panic!("{outcome:?}") };
        assert!(errors.len() >= 5 && errors.iter().all(|it| it.contains("rank 2")), "{errors:?}");
    }
}

/// Rank 0 begins while rank 1 is elsewhere, and comes to an end; then rank 1 calls.
fn of_one_who_does_not_wait_for_ever(case: Case, end: impl Fn(&Group) + Sync) {
    let mut job = case.of(2).start(|ctx| {
        let group = meet(ctx);
        if ctx.rank() == 0 {
            end(&group);
            ctx.reach("ended");
        } else {
            let _: bool = ctx.told("ended");
            let error = told(
                all_reduce(&mine(&group, LARGE), ReduceOp::Sum, &group)
                    .unwrap()
                    .map(|sums| Ok::<_, Error>(sums.len())),
            );
            let by = match error {
                Error::Late { by, .. } | Error::Aborted { by, .. } => by,
                _ => panic!("{error}"),
            };
            assert_eq!(by, 0, "{error}");
        }
    });
    job.await_point(0, "ended");
    job.tell("ended", &true);
    job.expect_all();
}

fn an_abort_is_told_by_all_values(case: Case) {
    of_one_who_does_not_wait_for_ever(case, |group| {
        let values = begin(group);
        group.abort("enough");
        for error in values.into_iter().map(told) {
            assert!(matches!(&error, Error::Aborted { by: 0, reason, .. } if reason == "enough"));
        }
    });
}

fn a_deadline_is_told_by_all_values(case: Case) {
    of_one_who_does_not_wait_for_ever(case, |group| {
        for error in begin(&group.within(SOON)).into_iter().map(told) {
            let Error::Late { missing, by: 0, .. } = &error else { panic!("{error}") };
            assert_eq!((&missing[..], error.kind()), (&[1][..], ErrorKind::Deadline));
        }
    });
}

fn an_abort_of_another_rank_is_told_by_all_values(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        group.barrier().unwrap();
        if ctx.rank() == 1 {
            group.abort("had enough");
            return;
        }
        for error in begin(&group).into_iter().map(told) {
            assert!(
                matches!(&error, Error::Aborted { by: 1, reason, .. } if reason == "had enough"),
                "{error}"
            );
        }
    });
}

fn a_message_that_does_not_come_in_time_is_an_error(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        if ctx.rank() == 0 {
            let meta = Meta::new(Dtype::F32, [3]);
            let late = recv::<Vec<f32>>(meta, 1, 5, group.within(SOON)).unwrap();
            let error = told(late.map(|it| Ok::<_, Error>(it.len())));
            assert!(matches!(&error, Error::Late { missing, .. } if missing == &[1]), "{error}");
        }
        // It has ended nothing.
        group.barrier().unwrap();
        let sums = all_reduce(&vec![1_u8], ReduceOp::Sum, &group).unwrap();
        assert_eq!(sums.wait().unwrap(), [2]);
    });
}

/// An error of a program's own.
#[derive(Clone, Debug)]
enum Mine {
    OfTheGroup(String),
    Short,
}

impl From<Error> for Mine {
    fn from(error: Error) -> Self {
        Self::OfTheGroup(error.to_string())
    }
}

#[test]
fn programs_can_have_errors_of_their_own() {
    let group = alone();
    let long = |it: Vec<u8>| if it.len() < 3 { Err(Mine::Short) } else { Ok(it.len()) };
    let sums = |len: usize| all_reduce(&vec![1_u8; len], ReduceOp::Sum, &group).unwrap();
    assert_eq!(sums(3).map_with(long).wait().unwrap(), 3);
    let all: Pending<Vec<usize>, Mine> =
        Pending::all([sums(4).map_with(long), sums(2).map_with(long)]);
    assert!(matches!(block_on(all), Err(Mine::Short)));
    group.abort("enough");
    let error = sums(3).map_with(long).map(|len| Ok(len + 1)).wait().unwrap_err();
    assert!(matches!(error, Mine::OfTheGroup(words) if words.contains("enough")));
}
