//! The groups along the dimensions of a mesh.

use std::thread;
use std::time::Duration;

use consort::{Error, Group, Mesh};
use consort_testkit::{Case, conformance};

use super::meet::{has, meet, works};

conformance! { [shm tcp mixed in_process mpi]
    every_dimension_has_the_groups_that_the_rows_say
    ranks_in_any_order_have_the_groups_that_the_rows_say
    ranks_outside_do_something_else
    threads_of_a_rank_that_ask_at_once_get_the_same_group
    a_dimension_has_the_group_that_it_was_given
    a_mesh_of_a_part_has_groups_of_its_ranks
}

fn every_dimension_has_the_groups_that_the_rows_say(case: Case) {
    case.run(8, |ctx| {
        let group = meet(ctx);
        let names = ["replica", "shard", "tensor"];
        let cube = Mesh::new(&group, &[2, 2, 2], &names).unwrap();
        works(&cube);
        let calls = group.calls();
        // Rows that there are already are found, and not made again.
        let table = Mesh::new(&group, &[4, 2], &["data", "tensor"]).unwrap();
        works(&table);
        assert_eq!(table.group("tensor").unwrap().name(), cube.group("tensor").unwrap().name());
        assert_eq!(group.calls(), calls);
        has(&table.whole().unwrap(), &group, &table.ranks());
        assert_eq!(group.calls(), calls + 2);
        let rank = ctx.rank() as usize;
        assert_eq!(cube.coordinate(), Some(vec![rank / 4, rank / 2 % 2, rank % 2]));
    });
}

fn ranks_in_any_order_have_the_groups_that_the_rows_say(case: Case) {
    case.run(6, |ctx| {
        let group = meet(ctx);
        let ranks = [4, 1, 3, 0, 5, 2];
        let mesh = Mesh::from_ranks(&group, &ranks, &[2, 3], &["data", "tensor"]).unwrap();
        works(&mesh);
        let column = mesh.group("data").unwrap();
        let expected: [u32; 2] = match ctx.rank() {
            0 | 4 => [4, 0],
            1 | 5 => [1, 5],
            _ => [3, 2],
        };
        assert_eq!(column.world_ranks(), expected);
        let whole = mesh.whole().unwrap();
        has(&whole, &group, &ranks);
        let same = Mesh::from_description(&group, &mesh.describe()).unwrap();
        assert_eq!(same, mesh);
        works(&same);
    });
}

fn ranks_outside_do_something_else(case: Case) {
    case.run(6, |ctx| {
        let group = meet(ctx);
        let mesh = Mesh::from_ranks(&group, &[5, 0, 2, 3], &[2, 2], &["a", "b"]).unwrap();
        if mesh.coordinate().is_some() {
            works(&mesh);
            works(&mesh.sub(&["b"]).unwrap());
        } else {
            let error = mesh.group("a").unwrap_err();
            assert!(matches!(error, Error::Argument(_)), "{error}");
            let said = format!("rank {} is not in the mesh of 2 × 2", ctx.rank());
            assert!(error.to_string().starts_with(&said), "{error}");
            works(&Mesh::from_ranks(&group, &[4, 1], &[2], &["others"]).unwrap());
        }
        group.barrier().unwrap();
    });
}

fn threads_of_a_rank_that_ask_at_once_get_the_same_group(case: Case) {
    case.run(4, |ctx| {
        let group = meet(ctx);
        let mesh = Mesh::new(&group, &[2, 2], &["data", "tensor"]).unwrap();
        // In any order: each asks from a thread of its own.
        let dims = if ctx.rank() % 2 == 0 { [0, 1, 0, 1] } else { [1, 0, 1, 0] };
        let ask = |dim: usize| {
            thread::sleep(Duration::from_millis(5) * (ctx.rank() / 2));
            mesh.group(dim).unwrap()
        };
        let found: Vec<Group> = thread::scope(|scope| {
            let threads = dims.map(|dim| scope.spawn(move || ask(dim)));
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let data = ctx.rank() as usize % 2;
        found[data].barrier().unwrap();
        // A call of one is a call of the other.
        let calls = [data, data + 2, 1 - data, 3 - data].map(|at| found[at].calls());
        assert_eq!(calls, [1, 1, 0, 0]);
        works(&mesh);
    });
}

fn a_dimension_has_the_group_that_it_was_given(case: Case) {
    case.run(6, |ctx| {
        let group = meet(ctx);
        let (row, column) = (ctx.rank() / 3, ctx.rank() % 3);
        let tensor = group.split(Some(row), 0).unwrap().unwrap();
        let data = group.split(Some(column), 0).unwrap().unwrap();
        let ranks: Vec<u32> = (0..6).collect();
        let groups = [("data", &data), ("tensor", &tensor)];
        let mesh = Mesh::from_groups(&group, &ranks, &groups).unwrap();
        assert_eq!(mesh, Mesh::new(&group, &[2, 3], &["data", "tensor"]).unwrap());
        assert_eq!(mesh.group("tensor").unwrap().name(), tensor.name());
        works(&mesh);
        let patient = data.within(Duration::from_secs(40));
        let mesh = mesh.with_group("data", &patient).unwrap();
        assert_eq!(mesh.sub(&["data"]).unwrap().group(0).unwrap().timeout(), patient.timeout());
        works(&mesh);
        let error = mesh.with_group("tensor", &patient).unwrap_err().to_string();
        assert!(error.contains(&format!("the row of rank {} along", ctx.rank())), "{error}");
    });
}

fn a_mesh_of_a_part_has_groups_of_its_ranks(case: Case) {
    case.run(8, |ctx| {
        let group = meet(ctx);
        let backwards = -i64::from(ctx.rank());
        let half = group.split(Some(ctx.rank() % 2), backwards).unwrap().unwrap();
        let mesh = Mesh::new(&half, &[2, 2], &["data", "tensor"]).unwrap();
        works(&mesh);
        // The mesh keeps what its groups are of.
        drop((half, group));
        works(&mesh);
        let odd = ctx.rank() % 2;
        let expected = if ctx.rank() < 4 { [2 + odd, odd] } else { [6 + odd, 4 + odd] };
        assert_eq!(mesh.group("tensor").unwrap().world_ranks(), expected);
    });
}
