use consort_sys::dtype::Dtype;

use super::*;

fn f32s(shape: &[usize]) -> Meta {
    Meta::new(Dtype::F32, shape)
}

/// What rank 1 of 2 gets.
fn shape(collective: &Collective, x: &[usize]) -> Vec<usize> {
    collective.meta(&f32s(x), Rank(1), 2).unwrap().shape
}

/// What rank 1 of 2 is told.
fn told(collective: &Collective, x: &Meta) -> String {
    collective.meta(x, Rank(1), 2).unwrap_err().to_string()
}

fn ranks(pairs: &[(u32, u32)]) -> Vec<(Rank, Rank)> {
    pairs.iter().map(|&(from, to)| (Rank(from), Rank(to))).collect()
}

#[test]
fn every_call_knows_what_comes_of_it() {
    let (op, root) = (ReduceOp::Sum, Rank(1));
    let uneven = Collective::AllToAllUneven { to: vec![3, 1], from: vec![5, 1] };
    let table = [
        (Collective::Broadcast { root }, vec![4, 3]),
        (Collective::AllReduce { op }, vec![4, 3]),
        (Collective::Reduce { op, root }, vec![4, 3]),
        (Collective::AllGather { dim: 0 }, vec![8, 3]),
        (Collective::AllGather { dim: 1 }, vec![4, 6]),
        (Collective::ReduceScatter { op, dim: 0 }, vec![2, 3]),
        (Collective::AllToAll, vec![4, 3]),
        (uneven, vec![6, 3]),
        (Collective::Permute { pairs: ranks(&[(0, 1)]) }, vec![4, 3]),
    ];
    for (collective, expected) in table {
        assert_eq!(shape(&collective, &[4, 3]), expected, "{collective}");
    }
    assert_eq!(shape(&Collective::AllGather { dim: 0 }, &[]), [2]);
    assert_eq!(shape(&Collective::AllGather { dim: 1 }, &[0, 0]), [0, 0]);
    assert_eq!(shape(&Collective::ReduceScatter { op, dim: 1 }, &[3, 0]), [3, 0]);
}

#[test]
fn what_makes_no_sense_is_said_with_the_shape() {
    let (op, x) = (ReduceOp::Sum, f32s(&[4, 3]));
    let lists = |to: &[usize], from: &[usize]| Collective::AllToAllUneven {
        to: to.to_vec(),
        from: from.to_vec(),
    };
    let permute = |pairs| Collective::Permute { pairs: ranks(pairs) };
    let table = [
        (
            Collective::AllGather { dim: 2 },
            "all_gather: there is no dimension 2 in f32 [4, 3]: it has 0 to 1",
        ),
        (
            Collective::ReduceScatter { op, dim: 1 },
            "reduce_scatter: dimension 1 of f32 [4, 3] has 3 rows, which 2 ranks cannot share \
             equally",
        ),
        (Collective::Broadcast { root: Rank(2) }, "broadcast: there is no rank 2 in a group of 2"),
        (Collective::Reduce { op, root: Rank(7) }, "reduce: there is no rank 7 in a group of 2"),
        (lists(&[4], &[4, 0]), "all_to_all: `to` has 1 numbers of rows for 2 ranks"),
        (lists(&[4, 0], &[4, 0, 0]), "all_to_all: `from` has 3 numbers of rows for 2 ranks"),
        (lists(&[1, 1], &[1, 1]), "all_to_all: `to` has 2 rows in all, but f32 [4, 3] has 4"),
        (
            lists(&[1, 3], &[1, 2]),
            "all_to_all: rank 1 sends 3 rows to itself, but expects 2: they must be equal",
        ),
        (permute(&[(0, 1), (0, 0)]), "permute: rank 0 sends twice"),
        (permute(&[(0, 1), (1, 1)]), "permute: rank 1 is sent to twice"),
        (permute(&[(0, 2)]), "permute: there is no rank 2 in a group of 2"),
    ];
    for (collective, text) in table {
        assert_eq!(told(&collective, &x), text);
    }
    let number = f32s(&[]);
    assert_eq!(
        told(&Collective::AllToAll, &number),
        "all_to_all: there is no dimension 0 in f32 []: it has none"
    );
    assert!(told(&Collective::AllGather { dim: 1 }, &number).contains("no dimension 1"));
    let huge = f32s(&[usize::MAX / 2]);
    let told_of_huge = told(&Collective::AllGather { dim: 0 }, &huge);
    assert!(told_of_huge.starts_with("all_gather: no memory is as large as f32"), "{told_of_huge}");
}

#[test]
fn numbers_that_cannot_be_combined_are_refused() {
    let x = Meta::new(Dtype::Bool, [4]);
    for collective in [
        Collective::AllReduce { op: ReduceOp::Avg },
        Collective::Reduce { op: ReduceOp::Avg, root: Rank(0) },
        Collective::ReduceScatter { op: ReduceOp::Avg, dim: 0 },
    ] {
        let error = collective.meta(&x, Rank(0), 2).unwrap_err();
        assert!(matches!(error, Error::Unsupported(_)), "{error}");
    }
}

#[test]
fn what_is_not_linear_has_no_gradient_and_says_why() {
    for op in [ReduceOp::Max, ReduceOp::Min, ReduceOp::Product, ReduceOp::BitOr] {
        for collective in [
            Collective::AllReduce { op },
            Collective::Reduce { op, root: Rank(0) },
            Collective::ReduceScatter { op, dim: 0 },
        ] {
            let why = collective.adjoint(4).unwrap_err().to_string();
            let begins = format!("{}({}) has no gradient: ", collective.name(), op.name());
            assert!(why.starts_with(&begins) && why.contains("detach"), "{why}");
        }
    }
}

#[test]
fn calls_are_told_in_words() {
    let words = |collective: Collective| collective.to_string();
    let (op, root) = (ReduceOp::Max, Rank(3));
    assert_eq!(words(Collective::Reduce { op, root }), "reduce(max), root 3");
    assert_eq!(words(Collective::ReduceScatter { op, dim: 1 }), "reduce_scatter(max) along 1");
    assert_eq!(
        words(Collective::Permute { pairs: ranks(&[(0, 1), (2, 0)]) }),
        "permute, 0 to 1, 2 to 0"
    );
}
