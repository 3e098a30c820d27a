//! Meshes of groups whose other ranks are not there.

use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::backend::{Backend, Fake};

fn fake(rank: u32, world: u32) -> Group {
    Group::fake(rank, world).unwrap()
}

/// Eight ranks, of which this is number 5.
fn cube() -> Mesh {
    Mesh::new(&fake(5, 8), &[2, 2, 2], &["a", "b", "c"]).unwrap()
}

fn refused<T: fmt::Debug>(result: Result<T>) -> String {
    match result {
        Err(Error::Argument(what)) => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn meshes_that_make_no_sense_are_refused() {
    let group = fake(0, 6);
    let new = |shape: &[usize], names: &[&str]| refused(Mesh::new(&group, shape, names));
    let too_many =
        "a mesh of 2 × 4 has 8 ranks, but the group has 6: start more ranks, or make it smaller";
    assert_eq!(new(&[2, 4], &["a", "b"]), too_many);
    assert!(new(&[2, 2], &["a", "b"]).contains("Mesh::from_ranks makes one of some"));
    assert!(new(&[usize::MAX, 3], &["a", "b"]).ends_with("start more ranks, or make it smaller"));
    assert_eq!(new(&[0, 6], &["a", "b"]), "dimension \"a\" has no ranks: the least size is 1");
    assert_eq!(new(&[], &[]), "a mesh has at least one dimension");
    let unnamed = "dimension 1 of [\"a\", \"\"] has no name: each needs one";
    assert_eq!(new(&[2, 3], &["a", ""]), unnamed);
    let twice = "two of [\"a\", \"a\"] are called \"a\": each needs a name of its own";
    assert_eq!(new(&[2, 3], &["a", "a"]), twice);
    let names = "a mesh of 2 × 3 needs 2 names, not 1: [\"a\"]";
    assert_eq!(new(&[2, 3], &["a"]), names);

    let from = |ranks: &[u32]| refused(Mesh::from_ranks(&group, ranks, &[2, 2], &["a", "b"]));
    assert_eq!(from(&[0, 1, 2]), "a mesh of 2 × 2 has 4 ranks, but 3 were given");
    assert_eq!(from(&[0, 1, 2, 1]), "rank 1 is in the mesh twice");
    assert_eq!(from(&[0, 1, 2, 6]), "there is no rank 6 in a group of 6");
    assert!(refused(Mesh::from_group(&group, "")).contains("has no name"));
}

#[test]
fn dimensions_and_coordinates_that_do_not_exist_are_named() {
    let mesh = cube();
    let none = "there is no dimension \"d\" in a mesh of [\"a\", \"b\", \"c\"]";
    assert_eq!(refused(mesh.len("d")), none);
    assert_eq!(refused(mesh.group("d")), none);
    assert!(refused(mesh.rows(3)).starts_with("there is no dimension 3 in"));
    let wrong = "[0, 1] has 2 indices, but the mesh has 3 dimensions";
    assert_eq!(refused(mesh.rank_at(&[0, 1])), wrong);
    assert!(refused(mesh.slice("b", 2)).contains("no index 2 along dimension \"b\", which has 2"));
    let order = "dimension \"a\" does not come after \"c\" in a mesh of [\"a\", \"b\", \"c\"]";
    assert!(refused(mesh.sub(&["c", "a"])).starts_with(order));
    assert!(refused(mesh.sub(&["a", "a"])).contains("\"a\" does not come after \"a\""));
    assert!(refused(mesh.flatten(&[], "x")).contains("at least one"));
    assert!(refused(mesh.flatten(&["a", "b"], "c")).contains("two of [\"c\", \"c\"]"));
    assert!(refused(mesh.unflatten("a", &[2, 2], &["x", "y"])).contains("has 2 ranks, not 4"));
    assert!(refused(mesh.unflatten("a", &[2, 1], &["x", "b"])).contains("are called \"b\""));
    assert!(refused(mesh.sub(&["a"]).unwrap().slice(0, 0)).contains("at least one dimension"));
}

#[test]
fn a_rank_outside_knows_the_mesh_and_has_no_groups() {
    let mesh = Mesh::from_ranks(&fake(1, 6), &[5, 3, 2, 0], &[2, 2], &["a", "b"]).unwrap();
    assert_eq!((mesh.coordinate(), mesh.coordinate_of(3)), (None, Some(vec![0, 1])));
    assert_eq!(mesh.rows("b").unwrap(), [[5, 3], [2, 0]]);
    let refusals = [
        refused(mesh.group("a")),
        refused(mesh.whole()),
        refused(mesh.groups()),
        refused(mesh.row("a")),
        refused(mesh.local_rank("a")),
        refused(mesh.with_group("a", mesh.parent())),
    ];
    for refusal in refusals {
        assert!(refusal.starts_with("rank 1 is not in the mesh of 2 × 2 ranks"), "{refusal}");
    }
    let [row, other] = [mesh.sub(&["a"]).unwrap(), mesh.sub(&["b"]).unwrap()];
    assert_eq!((row.ranks(), row.coordinate()), (vec![5, 2], None));
    assert_eq!(Mesh::concatenate(&[&row, &other]).unwrap(), mesh);
}

#[test]
fn equal_lists_are_one_group_and_all_ranks_are_the_parent() {
    let mesh = cube();
    let name = |mesh: &Mesh, dim: &str| mesh.group(dim).unwrap().name().to_owned();
    assert_eq!(name(&mesh, "a"), "world/[1,5]");
    let same = |one: Group, other: Group| Arc::ptr_eq(&one.shared, &other.shared);
    let part = mesh.sub(&["a", "c"]).unwrap();
    assert!(same(mesh.group("a").unwrap(), part.group("a").unwrap()));
    let again = Mesh::from_description(mesh.parent(), &mesh.describe()).unwrap();
    assert!(same(again.group(2).unwrap(), mesh.group("c").unwrap()));
    let flat = mesh.flatten(&["a", "b", "c"], "all").unwrap();
    assert!(same(flat.group("all").unwrap(), mesh.parent().clone()));
    assert!(same(mesh.whole().unwrap(), mesh.parent().clone()));
    assert!(same(
        part.flatten(&["a", "c"], "ac").unwrap().group(0).unwrap(),
        part.whole().unwrap()
    ));
}

#[test]
fn a_group_that_was_given_goes_with_its_dimension() {
    let mesh = cube();
    let own = mesh.parent().among("own", &[1, 5]).unwrap();
    let given = mesh.with_group("a", &own).unwrap();
    let name = |mesh: &Mesh, dim: &str| mesh.group(dim).unwrap().name().to_owned();
    assert_eq!((name(&given, "a"), name(&mesh, "a")), ("world/own".into(), "world/[1,5]".into()));
    let [row, other] = [given.sub(&["a"]).unwrap(), given.sub(&["b"]).unwrap()];
    assert_eq!(row.whole().unwrap().name(), "world/own");
    assert_eq!(name(&Mesh::concatenate(&[&other, &row]).unwrap(), "a"), "world/own");
    assert_eq!(name(&given.flatten(&["b", "c"], "x").unwrap(), "a"), "world/own");
    assert_eq!(name(&given.flatten(&["a"], "x").unwrap(), "x"), "world/own");
    assert_eq!(name(&given.unflatten("c", &[1, 2], &["x", "y"]).unwrap(), "a"), "world/own");
    assert_eq!(name(&given.slice("b", 0).unwrap(), "a"), "world/own");
    // Where this rank is not, there are others' groups.
    assert!(refused(given.slice("b", 1).unwrap().group("a")).contains("rank 5 is not in"));
    let wrong = refused(mesh.with_group("b", &own));
    assert!(wrong.contains("world/own has ranks [1, 5]"), "{wrong}");
    assert!(wrong.contains("the row of rank 5 along dimension \"b\" is [5, 7]"), "{wrong}");
}

#[test]
fn one_dimension_has_another_backend() {
    let mesh = cube();
    let backend = Arc::new(Fake::new("other", 1.into(), 2, Arc::default()));
    let other = mesh.group("a").unwrap().with_backend(backend.clone());
    let changed = mesh.with_group("a", &other).unwrap();
    changed.groups().unwrap().iter().for_each(|group| group.barrier().unwrap());
    assert_eq!((backend.calls(), mesh.group("a").unwrap().calls()), (1, 0));
    assert_eq!(mesh.group("b").unwrap().calls(), 1);
}

#[test]
fn a_group_that_was_given_is_known_by_its_ranks_in_the_group_of_all() {
    let group = fake(5, 8);
    let odd = group.subgroup(&[7, 5, 3, 1]).unwrap();
    let pair = group.among("pair", &[7, 5]).unwrap();
    let other = group.among("other", &[5, 1]).unwrap();
    let mesh = Mesh::from_groups(&odd, &[0, 1, 2, 3], &[("a", &other), ("b", &pair)]).unwrap();
    assert_eq!((mesh.shape(), mesh.coordinate()), (vec![2, 2], Some(vec![0, 1])));
    assert_eq!(mesh.group("b").unwrap().name(), "world/pair");
    assert!(Mesh::from_groups(&odd, &[0, 1, 2, 3], &[("a", &pair), ("b", &other)]).is_err());
}

#[test]
fn parts_that_do_not_fit_are_not_joined() {
    let mesh = cube();
    let joined = |parts: &[&Mesh]| refused(Mesh::concatenate(parts));
    let [a, ab, c] = [&["a"][..], &["a", "b"], &["c"]].map(|names| mesh.sub(names).unwrap());
    assert_eq!(joined(&[]), "there is no mesh to concatenate");
    assert!(joined(&[&a, &ab]).contains("are called \"a\""));
    let renamed = a.flatten(&["a"], "x").unwrap();
    assert!(joined(&[&renamed, &ab]).contains("overlap in more than one rank"));
    let elsewhere = mesh.slice("a", 0).unwrap().slice("b", 1).unwrap();
    assert!(joined(&[&a, &elsewhere]).contains("have no rank in common"));
    let other = Mesh::new(&fake(5, 16), &[8, 2], &["y", "z"]).unwrap();
    assert!(joined(&[&c, &other]).contains("are not parts of one mesh"));
    // The rows of one, each two apart, and of the other, three apart, meet once, but fill no rectangle.
    let six = Mesh::from_group(&fake(0, 6), "all").unwrap();
    let two = six.unflatten(0, &[3, 2], &["x", "y"]).unwrap().sub(&["x"]).unwrap();
    let three = six.unflatten(0, &[2, 3], &["z", "u"]).unwrap().sub(&["z"]).unwrap();
    assert!(joined(&[&two, &three]).contains("do not fit together"));
    assert_eq!(Mesh::concatenate(&[&ab, &c]).unwrap(), mesh);
}

#[test]
fn four_dimensions_of_a_thousand_ranks_are_made_in_no_time() {
    let group = fake(777, 1024);
    let began = Instant::now();
    let names = ["replica", "shard", "pipeline", "tensor"];
    let mesh = Mesh::new(&group, &[4, 8, 4, 8], &names).unwrap();
    let worlds: Vec<usize> = mesh.groups().unwrap().iter().map(Group::world).collect();
    assert_eq!(worlds, mesh.shape());
    assert_eq!(mesh.rows("shard").unwrap().len(), 128);
    assert!(mesh.to_string().contains("[777]"));
    assert!(began.elapsed().as_millis() < 1000, "{:?}", began.elapsed());
}

/// Shapes of up to four dimensions, ranks in any order, and how many there are besides.
fn arrays() -> impl Strategy<Value = (Vec<usize>, Vec<u32>)> {
    (prop::collection::vec(1_usize..4, 1..5), 0_u32..4).prop_flat_map(|(shape, more)| {
        let size: usize = shape.iter().product();
        let all: Vec<u32> = (0..size as u32 + more).collect();
        let ranks = Just(all).prop_shuffle().prop_map(move |mut ranks| {
            ranks.rotate_left(more as usize);
            ranks
        });
        (Just(shape), ranks)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn all_ranks_agree_on_every_row_and_part((shape, all) in arrays()) {
        let world = all.len() as u32;
        let ranks = &all[..shape.iter().product()];
        let names = &["a", "b", "c", "d"][..shape.len()];
        let last = &names[shape.len() - 1..];
        let meshes: Vec<Mesh> = (0..world)
            .map(|rank| Mesh::from_ranks(&fake(rank, world), ranks, &shape, names).unwrap())
            .collect();
        for (rank, mesh) in (0..world).zip(&meshes) {
            prop_assert_eq!(mesh.ranks(), ranks);
            prop_assert_eq!(mesh.coordinate().is_some(), ranks.contains(&rank));
            let Some(at) = mesh.coordinate() else { continue };
            prop_assert!(mesh.rank_at(&at).unwrap() == rank);
            for dim in 0..mesh.ndim() {
                let row = mesh.row(dim).unwrap();
                prop_assert_eq!(row[at[dim]], rank);
                prop_assert!(mesh.rows(dim).unwrap().contains(&row));
                for &member in &row {
                    prop_assert_eq!(meshes[member as usize].row(dim).unwrap(), row.clone());
                }
                let group = mesh.group(dim).unwrap();
                prop_assert_eq!(group.world_ranks(), row);
                prop_assert_eq!(group.rank().index(), mesh.local_rank(dim).unwrap());
            }
            let part = mesh.sub(&[names[0], last[0]][2 - shape.len().min(2)..]).unwrap();
            for &member in &part.ranks() {
                prop_assert_eq!(&meshes[member as usize].sub(&part.names()).unwrap(), &part);
            }
            let flat = part.flatten(&part.names(), "flat").unwrap();
            prop_assert_eq!(flat.row("flat").unwrap(), part.ranks());
        }
    }

    #[test]
    fn slices_put_together_are_the_mesh((shape, all) in arrays(), dim in 0_usize..4) {
        let names = &["a", "b", "c", "d"][..shape.len()];
        let ranks = &all[..shape.iter().product()];
        let mesh = Mesh::from_ranks(&fake(0, all.len() as u32), ranks, &shape, names).unwrap();
        if dim < shape.len() && shape.len() > 1 {
            let slices: Vec<Mesh> =
                (0..shape[dim]).map(|index| mesh.slice(dim, index).unwrap()).collect();
            let holders = slices.iter().filter(|slice| slice.coordinate().is_some()).count();
            prop_assert_eq!(holders, usize::from(mesh.coordinate().is_some()));
            let row = |number: usize| slices.iter().map(|slice| slice.ranks()[number]).collect();
            let rows: Vec<Vec<u32>> = (0..slices[0].size()).map(row).collect();
            prop_assert_eq!(mesh.rows(dim).unwrap(), rows);
        }
    }
}
