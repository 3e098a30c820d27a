//! Asynchronous calls on windows that they own.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread;

use consort::symm::{Kept, Plain};
use consort::{Call, Deadline, Error, Group, Lists, OwnedCall, ReduceOp, Work, bf16, f16};
use consort_testkit::ranks;

use super::Part;
use crate::{LIMIT, arenas, coded, meet};

#[test]
fn one_rank_has_many_on_their_way() {
    ranks(1, |ctx| many_at_once(&meet(ctx)));
}

#[test]
fn two_ranks_have_many_on_their_way() {
    agree(&ranks(2, |ctx| many_at_once(&meet(ctx))));
}

#[test]
fn three_ranks_have_many_on_their_way() {
    agree(&ranks(3, |ctx| many_at_once(&meet(ctx))));
}

#[test]
fn four_ranks_have_many_on_their_way() {
    agree(&ranks(4, |ctx| many_at_once(&meet(ctx))));
}

/// Every rank got the same bits.
fn agree(digests: &[String]) {
    assert_eq!(digests, vec![digests[0].clone(); digests.len()]);
}

/// Returns a digest of what came of all calls.
fn many_at_once(group: &Group) -> String {
    let mut digest = blake3::Hasher::new();
    of_type(group, &mut digest, |number| number);
    of_type(group, &mut digest, f64::from);
    of_type(group, &mut digest, f16::from_f32);
    of_type(group, &mut digest, bf16::from_f32);
    digest.finalize().to_string()
}

/// Reduces parts of windows that are all on their way at once, in every other case by a thread that
/// waits for them, and compares them with what the same numbers give in private memory.
fn of_type<T: Plain>(group: &Group, digest: &mut blake3::Hasher, make: fn(f32) -> T) {
    let me = group.rank().index();
    let numbers = |salt: usize, len: usize| -> Vec<T> {
        (0..len).map(|at| make(number(me, salt + at))).collect()
    };
    // Of no element, of one, below and above what is worked on where it is, and of several chunks; at
    // the beginning of a line, of an element in it, and of one that no larger element begins with.
    let lens = [0, 1, 7, 1_025, 4_099, 40_009, 200_003];
    let cases: Vec<(usize, usize, ReduceOp)> = lens
        .into_iter()
        .flat_map(|len| {
            [(len, 0, ReduceOp::Sum), (len, 1, ReduceOp::Avg), (len, 13, ReduceOp::Sum)]
        })
        .collect();
    let begin = |(salt, &(len, lead, op)): (usize, &(usize, usize, ReduceOp))| {
        let mut window = group.symmetric::<T>(lead + len + 3).unwrap().keep().unwrap();
        window.fill(make(9.5));
        window[lead..lead + len].copy_from_slice(&numbers(salt, len));
        let part = Part { window, range: lead..lead + len };
        group.all_reduce_async(part, op).unwrap()
    };
    let works: Vec<Work<Part<T>>> = cases.iter().enumerate().map(begin).collect();
    for (salt, (work, &(len, lead, op))) in works.into_iter().zip(&cases).enumerate().rev() {
        let Part { window, range } = done(work, salt);
        let mut elsewhere = numbers(salt, len);
        group.all_reduce(&mut elsewhere, op).unwrap();
        let what = || format!("{op} of {len} {} after {lead}", T::DTYPE);
        assert!(T::bytes(&window[range.clone()]) == T::bytes(&elsewhere), "{}", what());
        // What is beside it is as before.
        let beside = [&window[..range.start], &window[range.end..]].concat();
        assert!(beside.iter().all(|&it| it == make(9.5)), "{}", what());
        digest.update(T::bytes(&elsewhere));
    }
}

/// Numbers whose sum depends on the order in which they are added.
fn number(rank: usize, at: usize) -> f32 {
    let mantissa = (at * 7919 + rank * 104_729) % 1_000;
    (mantissa as f32 - 450.0) * 10_f32.powi((at % 5) as i32 - 2) / 3.0
}

/// This thread carries out every other call that it waits for.
fn done<T>(work: Work<T>, index: usize) -> T {
    match index.is_multiple_of(2) {
        true => work.wait().unwrap(),
        false => work.wait_until(Deadline::after(LIMIT)).expect("there is time").unwrap(),
    }
}

/// What a binding that knows its types only at run time makes of it.
struct Sum(Kept<u8>);

impl OwnedCall for Sum {
    fn call<'a>(&'a mut self, _lists: &'a mut Lists<'a>) -> Call<'a> {
        let output = consort::Target::from(&mut self.0[8..]);
        let (dtype, op) = (consort::Dtype::F64, ReduceOp::Sum);
        Call::AllReduce { dtype, op, input: output.into(), output }
    }
}

#[test]
fn a_call_whose_types_are_known_at_run_time_works_on_a_kept_window() {
    ranks(3, |ctx| {
        let group = meet(ctx);
        let (me, len) = (group.rank().index(), 10_007);
        let mut window = group.symmetric::<u8>(8 * (len + 1)).unwrap().keep().unwrap();
        for (at, bytes) in window.chunks_exact_mut(8).enumerate().skip(1) {
            bytes.copy_from_slice(&f64::from(number(me, at)).to_ne_bytes());
        }
        let Sum(window) = group.call_async(Sum(window)).unwrap().wait().unwrap();
        for (at, bytes) in window.chunks_exact(8).enumerate().skip(1) {
            let of = |rank| f64::from(number(rank, at));
            assert_eq!(bytes, (of(0) + of(1) + of(2)).to_ne_bytes());
        }
        assert_eq!(window[..8], [0; 8]);
    });
}

/// A window is filled, reduced and read by one thread after the other, while others of the same group
/// are on their way.
#[test]
fn kept_windows_go_from_thread_to_thread() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        let me = group.rank().index();
        let memories: Vec<_> = (0..4).map(|_| group.symmetric::<u64>(5_003).unwrap()).collect();
        let mut kept: Vec<Kept<u64>> = memories.iter().map(|it| it.keep().unwrap()).collect();
        for round in 0..20 {
            let fill = move |mut window: Kept<u64>| {
                window.iter_mut().enumerate().for_each(|(at, it)| *it = coded(me, round, at));
                window
            };
            let filled: Vec<_> = kept.drain(..).map(|it| thread::spawn(move || fill(it))).collect();
            let filled = filled.into_iter().map(|filling| filling.join().unwrap());
            let works: Vec<_> =
                filled.map(|it| group.all_reduce_async(it, ReduceOp::Sum).unwrap()).collect();
            let look = move |work: Work<Kept<u64>>| {
                let window = work.wait().unwrap();
                let sum = |at| coded(0, round, at) + coded(1, round, at);
                assert!(window.iter().enumerate().all(|(at, &it)| it == sum(at)));
                window
            };
            let looking: Vec<_> =
                works.into_iter().map(|work| thread::spawn(move || look(work))).collect();
            kept.extend(looking.into_iter().map(|looking| looking.join().unwrap()));
        }
        thread::spawn(move || drop(kept)).join().unwrap();
        // They were given back.
        memories.iter().for_each(|memory| memory.local().unwrap().fill(0));
        memories[0].barrier(0).unwrap();
    });
}

/// What is copied in to be reduced stays in this rank's shared memory until something else comes
/// there. Of a window nothing is.
#[test]
fn nothing_of_a_kept_window_is_copied_in() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        let (me, len) = (group.rank().index(), 100_003);
        let numbers = |round| move || (0..len).map(move |at| coded(me, round, at));
        let private: Vec<u64> = numbers(1)().collect();
        let sums = group.all_reduce_async(private, ReduceOp::Sum).unwrap().wait().unwrap();
        assert!(in_shared_memory(&numbers(1)().collect()) > 1_000);
        for (round, background) in [(2, false), (3, true)] {
            let mut window = group.symmetric::<u64>(len).unwrap().keep().unwrap();
            window.iter_mut().zip(numbers(round)()).for_each(|(it, number)| *it = number);
            let work = group.all_reduce_async(window, ReduceOp::Sum).unwrap();
            let window = done(work, usize::from(background));
            assert_eq!(window[0] - sums[0], 2 * ((round as u64 - 1) << 32));
            assert_eq!(in_shared_memory(&numbers(round)().collect()), 0);
        }
        group.barrier().unwrap();
    });
}

/// How many of these numbers are in this rank's shared memory, which has only words in places of their
/// own size.
fn in_shared_memory(numbers: &BTreeSet<u64>) -> usize {
    let mut found = 0;
    for arena in arenas() {
        let file = File::open(arena).unwrap();
        let end = file.metadata().unwrap().len();
        let mut at = 0;
        // Most of it is not there.
        while let Ok(data) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) {
            let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(data)).unwrap_or(end);
            let mut bytes = vec![0; (hole - data) as usize];
            file.read_exact_at(&mut bytes, data).unwrap();
            let words =
                bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
            found += words.filter(|word| numbers.contains(word)).count();
            at = hole;
        }
    }
    found
}

/// As with slices that are only borrowed.
#[test]
fn ranks_of_which_only_some_give_a_kept_window_hear_of_it() {
    let errors = ranks(2, |ctx| {
        let group = meet(ctx);
        let memory = group.symmetric::<f32>(4_096).unwrap();
        let error = if ctx.rank() == 0 {
            let failed = group.all_reduce_async(memory.keep().unwrap(), ReduceOp::Sum).unwrap();
            let failed = failed.wait().unwrap_err();
            assert_eq!(failed.buffer.len(), 4_096);
            failed.error
        } else {
            let numbers = vec![0.0_f32; 4_096];
            group.all_reduce_async(numbers, ReduceOp::Sum).unwrap().wait().unwrap_err().error
        };
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
        error.to_string()
    });
    for error in errors {
        assert_eq!(error.matches("all_reduce(sum) of 4096 f32").count(), 2, "{error}");
        assert_eq!(error.matches("in symmetric memory, as is its result").count(), 1, "{error}");
    }
}
