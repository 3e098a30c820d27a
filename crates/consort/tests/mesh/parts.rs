//! Meshes made of meshes.

use consort::Mesh;
use consort_testkit::{Case, conformance};

use super::meet::{has, meet, works};

conformance! { [shm tcp mixed in_process mpi]
    parts_of_a_mesh_have_its_groups
    one_dimension_of_several_is_a_group
    several_dimensions_of_one_are_groups
    a_slice_is_a_mesh_of_those_in_it
}

fn parts_of_a_mesh_have_its_groups(case: Case) {
    case.run(8, |ctx| {
        let group = meet(ctx);
        let names = ["data", "pipeline", "tensor"];
        let mesh = Mesh::from_ranks(&group, &[7, 2, 5, 0, 3, 6, 1, 4], &[2, 2, 2], &names).unwrap();
        works(&mesh);
        let part = mesh.sub(&["data", "tensor"]).unwrap();
        let before = mesh.group("tensor").unwrap().calls();
        works(&part);
        assert_eq!(mesh.group("tensor").unwrap().calls(), before + 2);
        has(&part.whole().unwrap(), &group, &part.ranks());
        assert_eq!(mesh.sub(&names).unwrap(), mesh);

        let [data, tensor] = [&["data"][..], &["tensor"]].map(|names| mesh.sub(names).unwrap());
        assert_eq!(Mesh::concatenate(&[&data, &tensor]).unwrap(), part);
        let turned = Mesh::concatenate(&[&tensor, &data]).unwrap();
        works(&turned);
        has(&turned.whole().unwrap(), &group, &turned.ranks());
        let all = Mesh::concatenate(&[&part, &mesh.sub(&["pipeline"]).unwrap()]).unwrap();
        assert_eq!(all.names(), ["data", "tensor", "pipeline"]);
        works(&all);
        has(&all.whole().unwrap(), &group, &all.ranks());
    });
}

fn one_dimension_of_several_is_a_group(case: Case) {
    case.run(8, |ctx| {
        let group = meet(ctx);
        let mesh = Mesh::new(&group, &[2, 2, 2], &["a", "b", "c"]).unwrap();
        for chosen in [["a", "b"], ["b", "c"], ["a", "c"]] {
            let flat = mesh.flatten(&chosen, "flat").unwrap();
            assert_eq!(flat.size(), 8);
            works(&flat);
            let part = mesh.sub(&chosen).unwrap();
            has(&flat.group("flat").unwrap(), &group, &part.ranks());
        }
        let all = mesh.flatten(&["a", "b", "c"], "all").unwrap();
        assert_eq!(all.group("all").unwrap().name(), "world");
        works(&all);
    });
}

fn several_dimensions_of_one_are_groups(case: Case) {
    case.run(6, |ctx| {
        let group = meet(ctx);
        let ranks = [5, 0, 4, 1, 3, 2];
        let line = Mesh::from_ranks(&group, &ranks, &[6], &["all"]).unwrap();
        for (shape, column) in [([2, 3], [5, 1]), ([3, 2], [0, 1])] {
            let table = line.unflatten("all", &shape, &["rows", "columns"]).unwrap();
            assert_eq!(table.ranks(), ranks);
            works(&table);
            let columns = table.rows("rows").unwrap();
            assert!(columns.iter().any(|row| row[..2] == column), "{columns:?}");
            assert_eq!(table.flatten(&["rows", "columns"], "all").unwrap(), line);
        }
        has(&line.group("all").unwrap(), &group, &ranks);
    });
}

fn a_slice_is_a_mesh_of_those_in_it(case: Case) {
    case.run(6, |ctx| {
        let group = meet(ctx);
        let mesh = Mesh::new(&group, &[3, 2], &["stage", "tensor"]).unwrap();
        let ends = [0, 2].map(|stage| mesh.slice("stage", stage).unwrap());
        for end in ends.iter().filter(|end| end.coordinate().is_some()) {
            works(end);
        }
        assert_eq!(ends.iter().all(|end| end.coordinate().is_none()), ctx.rank() / 2 == 1);
        works(&mesh);
    });
}
