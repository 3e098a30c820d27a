//! Ranks that do not come for their groups.

use std::thread;
use std::time::{Duration, Instant};

use consort::{Condition, Error, Mesh};
use consort_testkit::{Case, Outcome, conformance};

use super::meet::{connect, meet, works};

conformance! { [shm tcp mixed]
    a_rank_that_is_killed_before_it_asks_for_its_group_is_named_by_its_row
}
conformance! { [shm tcp mixed in_process mpi]
    ranks_that_wait_in_a_circle_are_named_at_the_deadline
}

fn a_rank_that_is_killed_before_it_asks_for_its_group_is_named_by_its_row(case: Case) {
    let mut job = case.of(4).start(|ctx| {
        let group = meet(ctx);
        // Of ranks on other hosts it is known at once that they die if there are connections.
        connect(&group);
        let mesh = Mesh::new(&group, &[2, 2], &["data", "tensor"]).unwrap();
        ctx.reach("met");
        if ctx.rank() == 3 {
            thread::sleep(Duration::from_secs(100));
        }
        if ctx.rank() % 2 == 0 {
            works(&mesh.sub(&["data"]).unwrap());
        }
        let dim = match ctx.rank() {
            // It is in no row with rank 3, and stays because it may have the store.
            0 => return ctx.told("enough"),
            1 => "data",
            _ => "tensor",
        };
        ctx.reach("waits");
        let error = mesh.group(dim).unwrap_err();
        let Error::PeerLost { rank: 3, by, whereabouts, .. } = &error else { panic!("{error}") };
        assert_eq!((*by, whereabouts[0].condition), (ctx.rank(), Condition::Ended), "{error}");
        assert!(mesh.group(dim).is_err());
        ctx.reach("told");
        error.to_string()
    });
    (0..4).for_each(|rank| job.await_point(rank, "met"));
    [1, 2].iter().for_each(|&rank| job.await_point(rank, "waits"));
    let killed = Instant::now();
    job.kill(3);
    [1, 2].iter().for_each(|&rank| job.await_point(rank, "told"));
    assert!(killed.elapsed() < SOON, "it took {:?}", killed.elapsed());
    job.tell("enough", &String::new());
    let outcomes = job.wait();
    assert_eq!(outcomes[3], Outcome::Signalled(9));
    for (rank, name) in [(1, "[1,3]"), (2, "[2,3]")] {
        let Outcome::Done(error) = &outcomes[rank] else { panic!("{outcomes:?}") };
        assert!(error.contains(&format!("in among({name:?})")), "{error}");
    }
}

fn ranks_that_wait_in_a_circle_are_named_at_the_deadline(case: Case) {
    case.run(4, |ctx| {
        let group = meet(ctx);
        group.barrier().unwrap();
        let mesh = Mesh::new(&group.within(Duration::from_secs(1)), &[2, 2], &["a", "b"]).unwrap();
        let dim = if [0, 3].contains(&ctx.rank()) { "a" } else { "b" };
        let error = mesh.group(dim).unwrap_err();
        let missing = [2, 0, 3, 1][ctx.rank() as usize];
        let Error::Late { missing: named, .. } = &error else { panic!("{error}") };
        assert_eq!(*named, [missing], "{error}");
        group.barrier().unwrap();
    });
}

/// What is heard of at once, even if others use the cores.
const SOON: Duration = Duration::from_secs(20);
