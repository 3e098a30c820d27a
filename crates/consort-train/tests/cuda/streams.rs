//! Candle's streams and consort's wait for each other.

use candle_core::Device;
use consort::ReduceOp;
use consort_testkit::ranks;
use consort_train::candle::functional::all_reduce;

use super::stage::{assert_near, coded, meet, plain};

#[test]
fn a_device_with_a_stream_of_its_own_gives_and_gets_what_it_should() {
    ranks(2, |ctx| {
        let (group, _) = meet(ctx);
        let device = Device::new_cuda_with_stream(group.local_rank()).unwrap();
        let mut expected = coded(group.rank().index(), &[100_003], &Device::Cpu);
        let mut there = expected.to_device(&device).unwrap();
        for _ in 0..5 {
            there =
                all_reduce(&there.copy().unwrap(), ReduceOp::Avg, &group).unwrap().wait().unwrap();
            expected = all_reduce(&expected, ReduceOp::Avg, &group).unwrap().wait().unwrap();
        }
        assert_near(&plain(&there), &plain(&expected));
    });
}

#[test]
fn what_one_thread_has_begun_another_can_wait_for() {
    ranks(2, |ctx| {
        let (group, device) = meet(ctx);
        let x = coded(group.rank().index(), &[1000], &device);
        let pending = all_reduce(&x, ReduceOp::Sum, &group).unwrap();
        let sum = std::thread::spawn(move || pending.wait().unwrap()).join().unwrap();
        let here =
            all_reduce(&coded(group.rank().index(), &[1000], &Device::Cpu), ReduceOp::Sum, &group);
        assert_eq!(plain(&sum), plain(&here.unwrap().wait().unwrap()));
    });
}
