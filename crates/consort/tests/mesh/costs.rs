//! What meshes cost.

use std::fs;
use std::path::PathBuf;

use consort::{Deadline, Group, Mesh, Store};
use consort_testkit::{Case, Context, conformance};

use super::meet::{LONG, connect, meet, works};

conformance! { [shm tcp]
    a_mesh_and_its_groups_cost_no_sockets_threads_or_calls
    groups_of_a_mesh_move_data_over_the_connections_that_there_are
}

fn a_mesh_and_its_groups_cost_no_sockets_threads_or_calls(case: Case) {
    case.run(8, |ctx| {
        let group = meet(ctx);
        let before = (Costs::now(), group.calls());
        let mesh = of_four_dimensions(&group);
        let flat = mesh.flatten(&["replica", "tensor"], "flat").unwrap();
        assert_eq!((Costs::now(), group.calls()), before);
        let groups = [mesh.groups().unwrap(), flat.groups().unwrap()].concat();
        assert!(groups.iter().all(|group| group.calls() == 0));
        assert_eq!((Costs::now(), group.calls()), before);
        // Who goes on to move data makes connections to the others.
        all_have_come(ctx, &group);
        works(&mesh);
        works(&flat);
    });
}

fn groups_of_a_mesh_move_data_over_the_connections_that_there_are(case: Case) {
    case.run(8, |ctx| {
        let group = meet(ctx);
        connect(&group);
        let before = Costs::now();
        let mesh = of_four_dimensions(&group);
        works(&mesh);
        works(&mesh.flatten(&["replica", "tensor"], "flat").unwrap());
        assert_eq!(Costs::now(), before);
        all_have_come(ctx, &group);
    });
}

fn of_four_dimensions(group: &Group) -> Mesh {
    Mesh::new(group, &[2, 2, 1, 2], &["replica", "shard", "pipeline", "tensor"]).unwrap()
}

/// Waits for the other ranks, without a call.
fn all_have_come(ctx: &Context, group: &Group) {
    group.store().barrier("counted", ctx.rank(), ctx.world(), Deadline::after(LONG)).unwrap();
}

/// What this process holds.
#[derive(Debug, PartialEq, Eq)]
struct Costs {
    sockets: usize,
    threads: usize,
}

impl Costs {
    fn now() -> Self {
        let is_socket = |path: &PathBuf| {
            fs::read_link(path).is_ok_and(|file| file.to_string_lossy().starts_with("socket:"))
        };
        let open = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
        let threads = fs::read_dir("/proc/self/task").unwrap().count();
        Self { sockets: open.filter(is_socket).count(), threads }
    }
}
