//! What ranks hear that have no connection to any that found it out.

use consort::{Builder, Error, ReduceOp, Secret, Transport};
use consort_store::Server;
use consort_testkit::{Outcome, Ranks};

use crate::meet::LONG;

/// In a ring each rank is connected to two others. The store, where the end of a group is settled, is
/// gone: so who is far from the dead rank can hear of it only from those in between.
#[test]
fn the_death_of_a_rank_is_passed_on_to_those_who_wait_for_others() {
    let secret = Secret::generate().unwrap();
    let server = Server::start("127.0.0.1:0".parse().unwrap(), &secret).unwrap();
    let mut job = Ranks::new(6).start(|ctx| {
        let (port, secret): (u16, String) = ctx.told("where");
        let address = format!("tcp://127.0.0.1:{port}?rank={}&world={}", ctx.rank(), ctx.world());
        let builder = Builder::new().address(&address).unwrap().timeout(LONG);
        let builder = builder.transport(Transport::Tcp).algorithm("ring");
        let group = builder.secret(secret.parse().unwrap()).init().unwrap();
        let mut numbers = vec![1_u32; 100_000];
        group.all_reduce(&mut numbers, ReduceOp::Max).unwrap();
        ctx.reach("met");
        let _: bool = ctx.told(if ctx.rank() == 2 { "never" } else { "the store is gone" });
        let error = group.all_reduce(&mut numbers, ReduceOp::Max).unwrap_err();
        ctx.reach("told");
        // Nobody leaves before all have heard: leaving says it too.
        let _: bool = ctx.told("all have heard");
        matches!(error, Error::PeerLost { rank: 2, .. })
    });
    job.tell("where", &(server.address().port(), secret.to_hex()));
    (0..6).for_each(|rank| job.await_point(rank, "met"));
    drop(server);
    job.tell("the store is gone", &true);
    job.kill(2);
    let others = [0, 1, 3, 4, 5];
    others.iter().for_each(|&rank| job.await_point(rank, "told"));
    job.tell("all have heard", &true);
    let outcomes = job.wait();
    for rank in others {
        assert_eq!(outcomes[rank as usize], Outcome::Done(true), "rank {rank}");
    }
}
