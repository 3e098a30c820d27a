//! Groups whose other ranks are not there, and backends of somebody else's.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use consort::{
    Backend, Call, Capabilities, Delivery, Dtype, Error, Group, Incoming, Job, Lists, Message,
    Operation, Outgoing, OwnedCall, Rank, ReduceOp, Result, Target, Terms,
};

use crate::meet::alone;

#[test]
fn a_fake_group_leaves_what_is_documented() {
    let group = Group::fake(1, 3).unwrap();
    assert_eq!((group.rank().get(), group.world(), group.local_world()), (1, 3, 3));
    assert_eq!(group.backend_name().unwrap(), "fake");
    group.barrier().unwrap();

    let mut numbers = [1, 2, 3];
    group.all_reduce(&mut numbers, ReduceOp::Sum).unwrap();
    group.broadcast(&mut numbers, 0).unwrap();
    group.reduce(&mut numbers, ReduceOp::Max, 1).unwrap();
    assert_eq!(numbers, [1, 2, 3]);
    let mut elsewhere = [0; 3];
    group.all_reduce_into(&numbers, &mut elsewhere, ReduceOp::Sum).unwrap();
    assert_eq!(elsewhere, numbers);

    let mut all = [0; 6];
    group.all_gather(&[7, 8], &mut all).unwrap();
    assert_eq!(all, [7, 8, 7, 8, 7, 8]);
    let mut at_root = [0; 3];
    group.gather(&[5], Some(&mut at_root), 1).unwrap();
    assert_eq!(at_root, [5; 3]);
    group.gather(&[5], None, 0).unwrap();

    let mut part = [0; 2];
    group.scatter(Some(&[1, 2, 3, 4, 5, 6]), &mut part, 1).unwrap();
    assert_eq!(part, [3, 4]);
    group.scatter(None, &mut part, 0).unwrap();
    assert_eq!(part, [3, 4]);
    group.reduce_scatter(&[1, 2, 3, 4, 5, 6], &mut part, ReduceOp::Product).unwrap();
    assert_eq!(part, [3, 4]);

    let mut exchanged = [0; 3];
    group.all_to_all(&[4, 5, 6], &mut exchanged).unwrap();
    assert_eq!(exchanged, [4, 5, 6]);
    let mut uneven = [0; 6];
    group.all_to_all_uneven(&[1, 2, 3, 4], &[1, 2, 1], &mut uneven, &[3, 2, 1]).unwrap();
    assert_eq!(uneven, [1, 1, 1, 2, 3, 4]);
    assert_eq!(group.calls(), 13);
}

#[test]
fn a_fake_group_refuses_what_a_real_one_refuses() {
    assert!(matches!(Group::fake(3, 3), Err(Error::Argument(_))));
    assert!(Group::fake(0, 0).is_err());
    let group = Group::fake(0, 3).unwrap();
    assert!(group.all_gather(&[1], &mut [0; 4]).is_err());
    assert!(group.broadcast(&mut [1], 3).is_err());
    assert!(group.all_reduce(&mut [1.0], ReduceOp::BitOr).is_err());
    assert!(group.gather(&[1], None, 0).is_err());
    assert!(group.new_group(&[0, 0]).is_err());
    assert_eq!(group.calls(), 0);
}

#[test]
fn a_fake_group_has_parts_and_asynchronous_calls() {
    let group = Group::fake(2, 4).unwrap();
    let part = group.new_group(&[3, 2]).unwrap().unwrap();
    assert_eq!((part.rank().get(), part.world(), part.world_ranks()), (1, 2, &[3, 2][..]));
    assert!(group.new_group(&[0, 1]).unwrap().is_none());
    let own = group.among("own", &[2, 0, 1]).unwrap();
    assert_eq!((own.rank().get(), own.world_ranks()), (0, &[2, 0, 1][..]));
    assert!(group.among("others", &[0, 1]).is_err());
    let all = group.split(Some(5), -1).unwrap().unwrap();
    assert_eq!((all.rank().get(), all.world()), (2, 4));
    assert!(group.split(None, 0).unwrap().is_none());

    let work = part.all_gather_async(vec![6_u8], vec![0; 2]).unwrap();
    assert!(work.is_done());
    assert_eq!((work.number(), work.wait().unwrap().1), (1, vec![6, 6]));
    let mut borrowed = [1.0_f32; 3];
    part.scope(|s| s.all_reduce(&mut borrowed, ReduceOp::Sum)).unwrap();
    assert_eq!(borrowed, [1.0; 3]);

    part.send(&[1_u8; 5], 0, 3).unwrap();
    assert_eq!(part.recv_any(&mut [9_u8], 3).unwrap(), part.rank());
    let mut untouched = [4_u8];
    part.recv(&mut untouched, 0, 3).unwrap();
    assert_eq!(untouched, [4]);
    assert!(part.send(&[1_u8], 2, 0).is_err());

    assert_eq!(part.send_async(vec![1_u8; 5], 0, 3).unwrap().wait().unwrap(), [1; 5]);
    assert_eq!(part.recv_async(vec![4_u8], 0, 3).unwrap().wait().unwrap(), [4]);
    assert_eq!(part.recv_any_async(vec![4_u8], 3).unwrap().wait().unwrap(), (vec![4], part.rank()));
    assert_eq!(part.recv_async(vec![4_u8], 2, 3).unwrap_err().buffer, [4]);

    part.abort("enough");
    assert_eq!(part.recv_any_async(vec![4_u8], 3).unwrap().wait().unwrap_err().buffer, [4]);
    assert!(part.send(&[1_u8], 0, 0).is_err());
    let failed = part.all_reduce_async(vec![1_u8], ReduceOp::Sum).unwrap().wait().unwrap_err();
    assert_eq!(failed.buffer, [1]);
    let error = part.barrier().unwrap_err();
    assert!(matches!(&error, Error::Aborted { by: 1, reason, .. } if reason == "enough"));
    group.barrier().unwrap();
    assert!(matches!(group.symmetric::<u8>(1).map(drop), Err(Error::Fake)));
}

/// A backend that notes what it is asked for.
#[derive(Debug)]
struct Noting {
    inner: Capabilities,
    noted: Mutex<Vec<Operation>>,
}

impl Backend for Noting {
    fn name(&self) -> &'static str {
        "noting"
    }

    fn capabilities(&self) -> &Capabilities {
        &self.inner
    }

    fn run(&self, call: &Call<'_>, _terms: Terms) -> Result<u64> {
        let mut noted = self.noted.lock().unwrap();
        noted.push(call.operation());
        Ok(noted.len() as u64)
    }

    fn submit(&self, mut job: Job) -> u64 {
        let number = self.calls() + 1;
        job.accept(number);
        for index in 0..job.count() {
            let mut lists = Lists::default();
            self.noted.lock().unwrap().push(job.call(index, &mut lists).operation());
        }
        // What is dropped has failed.
        if number < 4 {
            job.finish(Ok(()));
        }
        number
    }

    fn exchange(
        &self,
        _outgoing: Option<Outgoing<'_>>,
        incoming: Option<Incoming<'_>>,
        _timeout: Duration,
    ) -> Result<Option<Rank>> {
        Ok(incoming.and_then(|message| message.from))
    }

    fn submit_message(&self, mut delivery: Delivery) {
        if let Message::In(message) = delivery.message() {
            let from = message.from;
            delivery.finish(Ok(from));
        }
        // What is dropped has failed.
    }

    fn abort(&self, _reason: &str) {}

    fn error(&self) -> Option<Error> {
        None
    }

    fn calls(&self) -> u64 {
        self.noted.lock().unwrap().len() as u64
    }
}

#[test]
fn a_group_can_have_a_backend_of_somebody_else() {
    let inner = *Group::fake(0, 2).unwrap().capabilities().unwrap();
    let noting = Arc::new(Noting { inner, noted: Mutex::default() });
    let group = Group::fake(0, 2).unwrap().with_backend(noting.clone());
    assert_eq!(group.backend_name().unwrap(), "noting");
    group.barrier().unwrap();
    let work = group.coalesced(|calls| {
        let one = calls.all_reduce(vec![1_u8], ReduceOp::Sum)?;
        Ok((one, calls.broadcast(vec![2_u8], 0)?))
    });
    assert_eq!(work.unwrap().wait().unwrap(), (vec![1], vec![2]));
    let failed = group.all_reduce_async(vec![3_u8], ReduceOp::Sum).unwrap().wait().unwrap_err();
    assert!(matches!(failed.error, Error::Abandoned { .. }));
    assert_eq!(failed.buffer, [3]);
    let mut buffer = [0_u8];
    let message = Incoming {
        dtype: Dtype::U8,
        buffer: (&mut buffer[..]).into(),
        from: Some(1.into()),
        tag: 0.into(),
    };
    assert_eq!(group.exchange(None, Some(message)).unwrap(), Some(1.into()));
    assert_eq!(group.recv_async(vec![5_u8], 1, 0).unwrap().wait().unwrap(), [5]);
    let failed = group.send_async(vec![6_u8], 1, 0).unwrap().wait().unwrap_err();
    assert!(matches!(failed.error, Error::Abandoned { operation: "send" }), "{failed}");
    assert_eq!(failed.buffer, [6]);
    use Operation::{AllReduce, Barrier, Broadcast};
    assert_eq!(*noting.noted.lock().unwrap(), [Barrier, AllReduce, Broadcast, AllReduce]);
}

#[test]
fn a_backend_says_what_it_can_do() {
    let group = alone();
    assert_eq!(group.backend_name().unwrap(), "shm");
    let can = group.capabilities().unwrap();
    assert!(can.moves_data && can.abort_reaches_all && can.notices_death);
    assert!(can.supports(Operation::Barrier, None, None));
    for operation in Operation::ALL {
        assert!(can.supports(operation, Some(Dtype::F8E5m2), Some(ReduceOp::Max)));
    }
    assert!(!can.supports(Operation::Reduce, Some(Dtype::C64), Some(ReduceOp::Max)));
    assert!(!Group::fake(0, 1).unwrap().capabilities().unwrap().moves_data);
}

/// Numbers that are said to lie on a device.
struct OnDevice {
    bytes: Vec<u8>,
    device: u16,
}

impl OnDevice {
    fn target(&mut self) -> Target<'_> {
        let start = NonNull::from(&mut self.bytes[..]).cast();
        // SAFETY: they are this call's alone, and nobody but the engine for devices is given them.
        unsafe { Target::on_device(start, self.bytes.len(), self.device) }
    }
}

impl OwnedCall for OnDevice {
    fn call<'a>(&'a mut self, _lists: &'a mut Lists<'a>) -> Call<'a> {
        let output = self.target();
        Call::AllReduce { dtype: Dtype::U8, op: ReduceOp::Sum, input: output.into(), output }
    }
}

#[test]
fn calls_go_to_the_engine_of_the_memory_that_they_work_on() {
    let group = Group::fake(0, 2).unwrap();
    let there = |device| OnDevice { bytes: vec![1; 8], device };
    let failed = group.call_async(there(0)).unwrap_err();
    assert!(failed.to_string().contains("lies on device 0"), "{failed}");
    assert_eq!(group.device_capabilities().unwrap().map(|can| can.moves_data), None);

    let inner = *group.capabilities().unwrap();
    let noting = Arc::new(Noting { inner, noted: Mutex::default() });
    group.use_for_devices(noting.clone()).unwrap();
    assert!(group.use_for_devices(noting.clone()).is_err(), "it has one");
    group.call_async(there(0)).unwrap().wait().unwrap();
    group.call(&there(1).call(&mut Lists::default())).unwrap();
    group.barrier().unwrap();
    assert_eq!(noting.noted.lock().unwrap()[..], [Operation::AllReduce; 2]);
    assert_eq!(group.calls(), 3);
    let mut letter = there(0);
    let incoming =
        Incoming { dtype: Dtype::U8, buffer: letter.target(), from: Some(1.into()), tag: 0.into() };
    assert_eq!(group.exchange(None, Some(incoming)).unwrap(), Some(1.into()));

    let work = group.coalesced(|calls| {
        calls.barrier();
        Ok((calls.call(there(1))?, calls.call(there(1))?))
    });
    work.unwrap().wait().unwrap();
    assert_eq!(
        noting.noted.lock().unwrap()[2..],
        [Operation::Barrier, Operation::AllReduce, Operation::AllReduce]
    );
}

#[test]
fn memory_of_one_call_is_all_in_one_place() {
    let group = Group::fake(0, 2).unwrap();
    let mut there = OnDevice { bytes: vec![1; 8], device: 2 };
    let here = [0_u8; 8];
    let call = Call::AllReduce {
        dtype: Dtype::U8,
        op: ReduceOp::Sum,
        input: (&here[..]).into(),
        output: there.target(),
    };
    let error = group.call(&call).unwrap_err();
    assert!(
        error.to_string().contains("some of its memory lies on the host and some on device 2"),
        "{error}"
    );
    let error = group
        .coalesced(|calls| {
            let one = calls.all_reduce(vec![1_u8], ReduceOp::Sum)?;
            Ok((one, calls.call(OnDevice { bytes: vec![1; 8], device: 2 })?))
        })
        .map(drop)
        .unwrap_err();
    assert!(matches!(error, Error::Argument(_)), "{error}");
}
