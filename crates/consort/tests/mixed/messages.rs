//! Messages, inside a host and between hosts.

use super::meet::{bytes, let_in, meet, ranks};

#[test]
fn messages_go_to_ranks_here_and_elsewhere() {
    let Some(ranks) = ranks(4, 2, false) else { return };
    let job = ranks.start(|ctx| {
        let group = meet(ctx);
        let me = group.rank().get();
        for (call, len) in [0, 1, 100, 70_000, 2_000_000].into_iter().enumerate() {
            for distance in 1..4 {
                let (to, from) = ((me + distance) % 4, (me + 4 - distance) % 4);
                let mine = bytes(me as usize, call, len);
                let mut theirs = vec![0; len];
                group.send_recv(&mine, to, &mut theirs, from, 7).unwrap();
                assert!(theirs == bytes(from as usize, call, len), "{len} from {from}");
            }
        }
        group.barrier().unwrap();
    });
    let_in(&job);
    job.expect_all();
}

#[test]
fn a_message_of_anybody_may_come_from_either() {
    let Some(ranks) = ranks(4, 2, false) else { return };
    let job = ranks.start(|ctx| {
        let group = meet(ctx);
        let me = group.rank().get();
        for _ in 0..50 {
            if me != 1 {
                group.send(&[me], 1, 3).unwrap();
            } else {
                let mut sum = 0;
                for _ in 0..3 {
                    let mut one = [0_u32];
                    let from = group.recv_any(&mut one, 3).unwrap();
                    assert_eq!(from.get(), one[0]);
                    sum += one[0];
                }
                assert_eq!(sum, 5);
            }
            group.barrier().unwrap();
        }
    });
    let_in(&job);
    job.expect_all();
}
