use consort_sys::dtype::Element;
use proptest::prelude::*;

use super::*;

/// Numbers of which each is its place.
fn places(count: usize) -> Vec<u32> {
    (0..count as u32).collect()
}

fn copy(view: &View<'_>) -> Vec<u32> {
    let mut copy = vec![0; view.bytes() / 4];
    view.copy_to(u32::target(&mut copy));
    copy
}

/// The place of each number of a shape, row by row.
fn naive(shape: &[usize], strides: &[usize]) -> Vec<u32> {
    match (shape.split_first(), strides.split_first()) {
        (Some((&len, shape)), Some((&stride, strides))) => {
            let inner = naive(shape, strides);
            let row = |at: usize| inner.iter().map(move |place| place + (at * stride) as u32);
            (0..len).flat_map(row).collect()
        }
        _ => vec![0],
    }
}

proptest! {
    #[test]
    fn a_copy_has_the_numbers_row_by_row(
        dims in prop::collection::vec((0_usize..4, 0_usize..7), 0..5),
    ) {
        let (shape, strides): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
        let numbers = places(100);
        let view = View::strided(u32::source(&numbers), Dtype::U32, &shape, &strides).unwrap();
        prop_assert_eq!(copy(&view), naive(&shape, &strides));
    }

    #[test]
    fn what_is_cut_and_joined_along_a_dimension_is_as_it_was(
        shape in prop::collection::vec(1_usize..4, 1..4),
        dim in 0_usize..3,
        parts in 1_usize..4,
    ) {
        let dim = dim % shape.len();
        let mut whole = shape.clone();
        whole[dim] *= parts;
        let numbers = places(whole.iter().product());
        let view = View::rows(u32::source(&numbers), Dtype::U32, &whole).unwrap();
        let cut = copy(&view.cut(dim, parts));
        let around = (shape[..dim].iter().product(), shape[dim..].iter().product());
        let joined = View::joined(u32::source(&cut), Dtype::U32, parts, around).unwrap();
        prop_assert_eq!(copy(&joined), numbers);
    }
}

#[test]
fn what_is_cut_has_the_parts_of_each_rank_in_one_piece() {
    let numbers = places(8);
    let view = View::rows(u32::source(&numbers), Dtype::U32, &[2, 4]).unwrap();
    assert_eq!(copy(&view.cut(1, 2)), [0, 1, 4, 5, 2, 3, 6, 7]);
}

#[test]
fn a_view_is_within_its_memory() {
    let numbers = places(6);
    let all = u32::source(&numbers);
    for (shape, strides) in [(&[2, 3][..], &[3, 1][..]), (&[3, 2], &[1, 3]), (&[9, 2], &[0, 1])] {
        assert!(View::strided(all, Dtype::U32, shape, strides).is_ok(), "{shape:?}");
    }
    // Too far, too many dimensions, and more than can be counted.
    for (shape, strides) in
        [(&[2, 3][..], &[4, 1][..]), (&[2], &[3, 1]), (&[usize::MAX], &[usize::MAX]), (&[7], &[1])]
    {
        assert!(View::strided(all, Dtype::U32, shape, strides).is_err(), "{shape:?}");
    }
    let nothing = View::strided(all, Dtype::U32, &[0, usize::MAX], &[100, 100]).unwrap();
    assert_eq!(nothing.bytes(), 0);
}
