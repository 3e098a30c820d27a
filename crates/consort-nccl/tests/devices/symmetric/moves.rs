//! The same moves on memory of the host and of devices.

use consort::device::calls;
use consort::symm::{Options, SymmetricMemory};
use consort::{Call, Dtype, Element, Error, ReduceOp, Space, Transport};
use consort_testkit::{Context, Job, Ranks};

use super::{coded, kept_apart, message, on_devices, places, read, read_own, source};
use crate::stage::{device, download, invited, meet, upload, with_devices};

/// Makes a test of each world out of functions.
macro_rules! in_worlds {
    ($($name:ident($ranks:expr, $body:expr);)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn of_one() {
                $ranks(1).start(|ctx| $body(ctx)).expect_all();
            }

            #[test]
            fn of_two() {
                $ranks(2).start(|ctx| $body(ctx)).expect_all();
            }

            #[test]
            fn of_three() {
                $ranks(3).start(|ctx| $body(ctx)).expect_all();
            }

            #[test]
            fn of_four() {
                $ranks(4).start(|ctx| $body(ctx)).expect_all();
            }
        }
    )*};
}

in_worlds! {
    what_is_put_is_there_after_signals_and_barriers_on_the_host(Ranks::new, on_host);
    what_is_put_is_there_after_signals_and_barriers_on_devices(with_devices, on_near_devices);
    what_is_put_is_there_on_devices_that_do_not_reach_each_other(kept_apart, on_devices_apart);
}

fn on_host(ctx: &Context) {
    scenario(&meet(ctx).symmetric::<u8>(BYTES).unwrap());
    // In bytes, whatever it holds.
    scenario(&meet_again(ctx).symmetric::<u16>(BYTES / 2).unwrap());
}

fn on_near_devices(ctx: &Context) {
    let group = meet(ctx);
    let memory = on_devices(&group, BYTES);
    assert!((0..group.world() as u32).all(|rank| memory.reaches(rank.into())));
    scenario(&memory);
}

fn on_devices_apart(ctx: &Context) {
    let group = meet(ctx);
    let memory = on_devices(&group, BYTES);
    for rank in 0..group.world() as u32 {
        assert_eq!(memory.reaches(rank.into()), group.rank() == rank);
    }
    scenario(&memory);
}

fn meet_again(ctx: &Context) -> consort::Group {
    let place = format!("file://{}", ctx.dir().join("again").display());
    let builder = consort::Builder::new().rank(ctx.rank()).world(ctx.world());
    builder.timeout(crate::stage::LONG).address(&place).unwrap().init().unwrap()
}

/// What symmetric memory does, wherever it lies.
fn scenario(memory: &dyn SymmetricMemory) {
    zero_at_first(memory);
    round_the_ring(memory);
    all_to_all(memory);
    signals_are_counted(memory);
    mistakes_are_refused(memory);
    memory.barrier(1).unwrap();
}

fn zero_at_first(memory: &dyn SymmetricMemory) {
    assert!(read_own(memory, 0, memory.bytes()) == vec![0; memory.bytes()]);
    // Nobody puts anything before all have looked.
    memory.barrier(0).unwrap();
}

fn round_the_ring(memory: &dyn SymmetricMemory) {
    let (me, _, right, left) = places(memory.group());
    let all = memory.bytes();
    let sizes = [(1, 0), (3, 5), (4097, 4095), (70_001, 13), (0, 7), (1, all - 1), (all, 0)];
    for (turn, (len, at)) in sizes.into_iter().enumerate() {
        let channel = turn % memory.channels();
        let (mine, theirs) = (message(me, at, turn, len), message(left, at, turn, len));
        memory.put_with_signal(right.into(), at, source(&mine), channel).unwrap();
        memory.wait_signal(left.into(), channel).unwrap();
        assert!(read_own(memory, at, len) == theirs, "{len} at {at}");
        // The neighbour has looked before it is written anew.
        memory.barrier(0).unwrap();
    }
}

/// Every rank has a strip in the memory of every other.
fn all_to_all(memory: &dyn SymmetricMemory) {
    let (me, world, ..) = places(memory.group());
    let len = memory.bytes() / world as usize - 3;
    let strip = |rank: u32| rank as usize * (len + 3);
    for turn in 1..4 {
        for to in 0..world {
            let mine = message(me, strip(me), turn + to as usize, len);
            memory.put(to.into(), strip(me), source(&mine)).unwrap();
        }
        memory.barrier(turn).unwrap();
        for from in 0..world {
            let theirs = message(from, strip(from), turn + me as usize, len);
            assert!(read_own(memory, strip(from), len) == theirs, "from {from}");
        }
        for rank in (0..world).filter(|&rank| memory.reaches(rank.into())) {
            let at = strip(me) + 1;
            let theirs = message(me, at, turn + rank as usize, len - 1);
            assert!(read(memory, rank, at, len - 1) == theirs, "of {rank}");
        }
        memory.barrier(turn).unwrap();
    }
}

fn signals_are_counted(memory: &dyn SymmetricMemory) {
    let (me, _, right, left) = places(memory.group());
    let last = memory.channels() - 1;
    for turn in 0..5 {
        memory.put(right.into(), turn, source(&[coded(me, turn, 0)])).unwrap();
        memory.put_signal(right.into(), last).unwrap();
        memory.put_signal(right.into(), 0).unwrap();
    }
    // In another order than they were sent in: that what was put before is there does not depend on it.
    (0..5).for_each(|_| memory.wait_signal(left.into(), 0).unwrap());
    (0..5).for_each(|_| memory.wait_signal(left.into(), last).unwrap());
    assert_eq!(read_own(memory, 0, 5), (0..5).map(|at| coded(left, at, 0)).collect::<Vec<_>>());
    // A barrier takes none.
    memory.put_signal(right.into(), 2).unwrap();
    memory.barrier(2).unwrap();
    memory.wait_signal(left.into(), 2).unwrap();
    memory.barrier(2).unwrap();
}

fn mistakes_are_refused(memory: &dyn SymmetricMemory) {
    let (me, world, ..) = places(memory.group());
    let (bytes, channels) = (memory.bytes(), memory.channels());
    let refused = |what: consort::Result<()>, why: &str| match what {
        Err(Error::Argument(text)) => assert!(text.contains(why), "{text}"),
        other => panic!("{other:?}"),
    };
    let (no_rank, no_channel) = (format!("no rank {world}"), format!("no channel {channels}"));
    refused(memory.put(world.into(), 0, source(&[1])), &no_rank);
    refused(memory.put_signal(world.into(), 0), &no_rank);
    refused(memory.wait_signal(world.into(), 0), &no_rank);
    refused(memory.put_signal(me.into(), channels), &no_channel);
    refused(memory.wait_signal(me.into(), channels), &no_channel);
    refused(memory.barrier(channels), &no_channel);
    refused(memory.put_with_signal(me.into(), 0, source(&[1]), channels), &no_channel);
    let beyond = format!("not within a window of {bytes}");
    refused(memory.put(me.into(), bytes, source(&[1])), &beyond);
    refused(memory.put(me.into(), usize::MAX, source(&[1, 2])), &beyond);
    let mut two = [0; 2];
    refused(memory.get(me.into(), bytes - 1, (&mut two[..]).into()), &beyond);
    for rank in (0..world).filter(|&rank| !memory.reaches(rank.into())) {
        refused(memory.get(rank.into(), 0, (&mut two[..]).into()), "put_with_signal");
    }
}

near_and_apart! { data_may_lie_on_the_device_or_in_the_memory_itself(2, Job::expect_all); }

fn data_may_lie_on_the_device_or_in_the_memory_itself(ctx: &Context) {
    let group = meet(ctx);
    let (me, _, right, left) = places(&group);
    let (memory, device) = (on_devices(&group, BYTES), device(&group));
    let half = BYTES / 2;
    // From memory of the device that NCCL does not know, through more than one stage.
    let mine = upload(&device, &message(me, 0, 1, half));
    memory.put_with_signal(right.into(), 0, mine.source(), 0).unwrap();
    memory.wait_signal(left.into(), 0).unwrap();
    // On to the next, from the memory itself.
    let received = memory.source().slice(3..half);
    memory.put_with_signal(right.into(), half + 3, received, 0).unwrap();
    memory.wait_signal(left.into(), 0).unwrap();
    assert!(read_own(&memory, half + 3, half - 3) == message(me, 3, 1, half - 3));
    let mut out = device.allocate(100).unwrap();
    memory.get(me.into(), 11, out.target()).unwrap();
    assert_eq!(download::<u8>(&out), message(left, 11, 1, 100));
    let other = consort::device::Driver::load().unwrap().device(7).unwrap();
    let error = memory.put(me.into(), 0, upload(&other, &[1_u8]).source()).unwrap_err();
    assert!(error.to_string().contains("lies on device 7"), "{error}");
}

#[test]
fn collective_calls_work_on_the_memory_itself() {
    with_devices(3)
        .start(|ctx| {
            let group = meet(ctx);
            let memory = on_devices(&group, 4 * 1001);
            assert_eq!(memory.space(), Space::Device(group.local_rank() as u16));
            let numbers: Vec<i32> = (0..1001).map(|at| at + group.rank().get() as i32).collect();
            memory.write(0, &i32::source(&numbers).to_vec()).unwrap();
            let call = calls::all_reduce(memory.clone(), Dtype::I32, ReduceOp::Sum);
            let summed = group.call_async(call).unwrap().wait().unwrap().output;
            let sums: Vec<i32> = (0..1001).map(|at| 3 * at + 3).collect();
            let mut bytes = vec![0; 4 * 1001];
            summed.read(0, &mut bytes).unwrap();
            assert_eq!(bytes, i32::source(&sums).to_vec());
            // The same without giving it away.
            let (dtype, op, output) = (Dtype::I32, ReduceOp::Max, memory.target().slice(4..400));
            let input = memory.source().slice(404..800);
            group.call(&Call::AllReduce { dtype, op, input, output }).unwrap();
            memory.read(0, &mut bytes).unwrap();
            assert_eq!(bytes[4..400], i32::source(&sums[101..200]).to_vec());
            // Of ranks' parts that lie in it, too.
            let parts = on_devices(&group, 3 * 400);
            let call = calls::all_gather(memory.clone(), parts.clone(), Dtype::I32);
            let error = group.call_async(call).map(drop).unwrap_err().error;
            assert!(matches!(error, Error::Argument(_)), "{error}");
            let (input, outputs) =
                (memory.source().slice(0..400), consort::Outputs::Equal(parts.target()));
            group.call(&Call::AllGather { dtype, input, outputs }).unwrap();
            assert_eq!(read_own(&parts, 0, 1200), [&bytes[..400]; 3].concat());
        })
        .expect_all();
}

#[test]
fn channels_are_as_many_as_were_asked_for() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let options = Options::new().channels(3);
            let memory = group.symmetric_on_with(&device(&group), 0, &options).unwrap();
            assert_eq!((memory.channels(), memory.bytes()), (3, 0));
            let other = 1 - group.rank().get();
            memory.put_signal(other.into(), 2).unwrap();
            memory.wait_signal(other.into(), 2).unwrap();
        })
        .expect_all();
}

#[test]
fn ranks_that_share_no_memory_of_the_host_have_it_on_their_devices() {
    with_devices(3)
        .env("CONSORT_TRANSPORT", "tcp")
        .start(|ctx| {
            let group = invited(ctx).transport(Transport::Tcp).init().unwrap();
            assert!(!group.shares_memory());
            scenario(&on_devices(&group, BYTES));
        })
        .expect_all();
}

/// More than NCCL is given at a time of what it does not know, and no whole number of anything.
const BYTES: usize = 2 * ((1 << 20) + 4099);
