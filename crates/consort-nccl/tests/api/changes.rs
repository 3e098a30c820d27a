//! Communicators that are made of others.

use std::thread;

use consort::nccl::{Comm, Config, Shrink};
use consort_testkit::{Outcome, Ranks, ranks};

use crate::ends::sum;
use crate::meet::{await_id, comm, library, publish};

#[test]
fn ranks_of_one_color_become_one_in_the_order_of_keys() {
    let places = ranks(4, |ctx| {
        let comm = comm(ctx);
        let color = (ctx.rank() != 3).then_some(ctx.rank() % 2);
        let part = comm.split(color, -(ctx.rank() as i32), None).unwrap();
        let place = part.as_ref().map(|part| (part.rank(), part.world(), sum(part).unwrap()));
        if let Some(part) = part {
            part.destroy().unwrap();
        }
        assert_eq!(sum(&comm).unwrap(), 4);
        comm.destroy().unwrap();
        place
    });
    assert_eq!(places, [Some((1, 2, 2)), Some((0, 1, 1)), Some((0, 2, 2)), None]);
}

#[test]
fn a_part_can_be_configured() {
    ranks(2, |ctx| {
        let comm = comm(ctx);
        let config = Config::new().blocking(true).comm_name("part");
        let part = comm.split(Some(7), 0, Some(&config)).unwrap().unwrap();
        assert_eq!(sum(&part).unwrap(), 2);
        part.destroy().unwrap();
        comm.destroy().unwrap();
    });
}

#[test]
fn those_who_stay_shrink_without_those_who_leave() {
    let places = ranks(4, |ctx| {
        let comm = comm(ctx);
        if ctx.rank() == 2 {
            // It stays until the others are done with it.
            while !ctx.dir().join("shrunk").exists() {
                thread::yield_now();
            }
            drop(comm);
            return None;
        }
        let rest = comm.shrink(&[2], Shrink::WhenIdle, None).unwrap();
        let place = (rest.rank(), rest.world(), sum(&rest).unwrap());
        rest.destroy().unwrap();
        std::fs::write(ctx.dir().join("shrunk"), "").unwrap();
        drop(comm);
        Some(place)
    });
    assert_eq!(places, [Some((0, 3, 3)), Some((1, 3, 3)), None, Some((2, 3, 3))]);
}

#[test]
fn survivors_of_a_death_go_on() {
    let mut job = Ranks::new(4).start(|ctx| {
        let comm = comm(ctx);
        sum(&comm).unwrap();
        ctx.reach("summed");
        if ctx.rank() == 1 {
            loop {
                thread::park();
            }
        }
        sum(&comm).unwrap_err();
        let rest = comm.shrink(&[1], Shrink::Abort, None).unwrap();
        comm.abort().unwrap();
        let place = (rest.rank(), rest.world(), sum(&rest).unwrap());
        rest.destroy().unwrap();
        place
    });
    (0..4).for_each(|rank| job.await_point(rank, "summed"));
    job.kill(1);
    let outcomes = job.wait();
    assert_eq!(outcomes[0], Outcome::Done((0, 3, 3)));
    assert_eq!(outcomes[2], Outcome::Done((1, 3, 3)));
    assert_eq!(outcomes[3], Outcome::Done((2, 3, 3)));
}

#[test]
fn what_was_revoked_issues_nothing_and_can_be_split() {
    ranks(2, |ctx| {
        let comm = comm(ctx);
        // Whoever is still on its way into it would hear of the end instead.
        sum(&comm).unwrap();
        comm.revoke().unwrap();
        let error = sum(&comm).unwrap_err();
        assert!(error.to_string().contains("was revoked"), "{error}");
        assert!(comm.finalize().is_err());
        let copy = comm.split(Some(0), 0, None).unwrap().unwrap();
        assert_eq!(sum(&copy).unwrap(), 2);
        copy.destroy().unwrap();
        comm.destroy().unwrap();
    });
}

#[test]
fn a_communicator_grows_by_ranks_that_join() {
    let places = ranks(3, |ctx| {
        // Ranks 0 and 1 are there first, rank 2 joins.
        let grown = if ctx.rank() == 2 {
            let id = await_id(&ctx.dir().join("grow"));
            Comm::join(library(), 3, &id, 2, &Config::new()).unwrap()
        } else {
            let pair = pair(ctx);
            let bootstrap = (pair.rank() == 0).then(|| pair.grow_id().unwrap());
            if let Some(bootstrap) = &bootstrap {
                publish(&ctx.dir().join("grow"), bootstrap.id());
            }
            let id = bootstrap.as_ref().map(|bootstrap| *bootstrap.id());
            let grown = pair.grow(3, id.as_ref(), None).unwrap();
            pair.destroy().unwrap();
            grown
        };
        let place = (grown.rank(), grown.world(), sum(&grown).unwrap());
        grown.destroy().unwrap();
        place
    });
    assert_eq!(places, [(0, 3, 3), (1, 3, 3), (2, 3, 3)]);
}

fn pair(ctx: &consort_testkit::Context) -> Comm {
    let place = ctx.dir().join("pair");
    if ctx.rank() == 0 {
        let bootstrap = consort::nccl::Bootstrap::new(library()).unwrap();
        publish(&place, bootstrap.id());
        return Comm::init_rank(library(), 2, bootstrap.id(), 0).unwrap();
    }
    Comm::init_rank(library(), 2, &await_id(&place), 1).unwrap()
}
