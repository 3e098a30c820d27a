//! Layouts against arrays whose every element is written down.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

/// An array by its elements, row by row: what a layout stands for.
#[derive(Clone, Debug, PartialEq)]
struct Array {
    shape: Vec<usize>,
    places: Vec<usize>,
}

impl Array {
    fn of(layout: &Layout) -> Self {
        let shape = layout.shape();
        let places = coordinates(&shape).iter().map(|at| layout.place(at)).collect();
        Self { shape, places }
    }

    fn at(&self, coordinate: &[usize]) -> usize {
        let index =
            coordinate.iter().zip(&self.shape).fold(0, |index, (at, size)| index * size + at);
        self.places[index]
    }

    /// The same elements with the dimensions in another order.
    fn permuted(&self, order: &[usize]) -> Self {
        let shape: Vec<usize> = order.iter().map(|&dim| self.shape[dim]).collect();
        let old = |at: Vec<usize>| {
            let mut old = vec![0; at.len()];
            order.iter().zip(at).for_each(|(&dim, index)| old[dim] = index);
            self.at(&old)
        };
        let places = coordinates(&shape).into_iter().map(old).collect();
        Self { shape, places }
    }
}

/// All coordinates of a shape, the last index changing first.
fn coordinates(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for &size in shape {
        let longer = |at: &Vec<usize>| {
            let at = at.clone();
            (0..size).map(move |index| [&at[..], &[index]].concat())
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

fn piece(size: usize, stride: usize) -> Piece {
    Piece { size, stride }
}

/// Shapes of up to five dimensions, with sizes of 1 among them.
fn shapes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1_usize..5, 1..6)
}

/// A shape, and some of its dimensions in their order.
fn choices() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
    shapes().prop_flat_map(|shape| {
        let dims: Vec<usize> = (0..shape.len()).collect();
        let some = prop::sample::subsequence(dims, 1..=shape.len());
        (Just(shape), some)
    })
}

/// The other dimensions.
fn others(shape: &[usize], chosen: &[usize]) -> Vec<usize> {
    (0..shape.len()).filter(|dim| !chosen.contains(dim)).collect()
}

proptest! {
    #[test]
    fn a_list_is_read_row_by_row(shape in shapes()) {
        let layout = Layout::row_major(&shape);
        let len: usize = shape.iter().product();
        prop_assert_eq!(layout.shape(), shape);
        prop_assert_eq!((layout.numel(), layout.cosize()), (len, len));
        let all: Vec<usize> = (0..len).collect();
        prop_assert_eq!(&Array::of(&layout).places, &all);
        prop_assert_eq!(layout.places(), all);
    }

    #[test]
    fn some_dimensions_are_a_row_through_the_first_place((shape, chosen) in choices()) {
        let layout = Layout::row_major(&shape);
        let order = [&chosen[..], &others(&shape, &chosen)].concat();
        let array = Array::of(&layout).permuted(&order);
        let part = layout.select(&chosen);
        let len = part.numel();
        let expected: Vec<usize> =
            array.places.chunks(array.places.len() / len).map(|same| same[0]).collect();
        prop_assert_eq!(part.places(), expected.clone());
        prop_assert_eq!(part.cosize(), expected[len - 1] + 1);
    }

    #[test]
    fn rows_are_those_of_the_array((shape, chosen) in choices()) {
        let layout = Layout::row_major(&shape);
        let order = [&others(&shape, &chosen)[..], &chosen].concat();
        let array = Array::of(&layout).permuted(&order);
        let len = layout.select(&chosen).numel();
        let expected: Vec<Vec<usize>> = array.places.chunks(len).map(<[usize]>::to_vec).collect();
        prop_assert_eq!(layout.rows(&chosen), expected);
    }

    #[test]
    fn a_layout_and_its_complement_have_each_place_once((shape, chosen) in choices()) {
        let layout = Layout::row_major(&shape);
        let part = layout.select(&chosen);
        let starts = part.complement(layout.numel()).unwrap();
        let starts = starts.places();
        prop_assert_eq!(starts[0], 0);
        prop_assert!(starts.is_sorted());
        let mut all: Vec<usize> = starts
            .iter()
            .flat_map(|start| part.places().into_iter().map(move |place| start + place))
            .collect();
        all.sort_unstable();
        prop_assert_eq!(all, (0..layout.numel()).collect::<Vec<_>>());
    }

    #[test]
    fn what_has_a_complement_has_no_place_twice(
        one in choices(), other in choices(), len in 1_usize..400,
    ) {
        let part = |(shape, chosen): (Vec<usize>, Vec<usize>)| Layout::row_major(&shape).select(&chosen);
        let both = part(one).join(&part(other));
        if both.complement(len).is_some() {
            let places = both.places();
            let once: HashSet<usize> = places.iter().copied().collect();
            prop_assert_eq!(once.len(), places.len());
            prop_assert!(both.cosize() <= len);
            prop_assert_eq!(places.iter().max().unwrap() + 1, both.cosize());
        }
    }

    #[test]
    fn one_dimension_of_several_has_the_same_places((shape, chosen) in choices()) {
        let part = Layout::row_major(&shape).select(&chosen);
        let one = part.collapse();
        prop_assert_eq!(one.shape(), [part.numel()]);
        prop_assert_eq!(one.places(), part.places());
        prop_assert_eq!(Array::of(&one).places, part.places());
    }

    #[test]
    fn what_was_made_one_can_be_parted_again((shape, chosen) in choices()) {
        let part = Layout::row_major(&shape).select(&chosen);
        prop_assert_eq!(part.collapse().refine(0, &part.shape()), Some(part));
    }

    #[test]
    fn several_dimensions_of_one_have_the_same_places(
        (shape, chosen) in choices(), sizes in shapes(),
    ) {
        let part = Layout::row_major(&shape).select(&chosen).collapse();
        let refined = part.refine(0, &sizes);
        if sizes.iter().product::<usize>() != part.numel() {
            prop_assert_eq!(refined, None);
        } else if let Some(refined) = refined {
            prop_assert_eq!(refined.shape(), sizes);
            prop_assert_eq!(refined.places(), part.places());
            prop_assert_eq!(refined.collapse(), part);
        } else {
            // Nothing that is evenly spaced is refused.
            prop_assert!(part.dims[0].len() > 1);
        }
    }

    #[test]
    fn places_and_coordinates_are_each_others((shape, chosen) in choices()) {
        let len: usize = shape.iter().product();
        let layout = Layout::row_major(&shape);
        let rest = others(&shape, &chosen);
        for layout in [layout.select(&chosen), layout.select(&chosen).collapse().join(&layout.select(&rest))] {
            let known = coordinates(&layout.shape());
            for place in 0..=len {
                let expected = known.iter().find(|at| layout.place(at) == place).cloned();
                prop_assert_eq!(layout.coordinate(place), expected);
            }
        }
    }
}

#[test]
fn pieces_of_one_place_vanish_and_neighbours_merge() {
    let layout = Layout::row_major(&[2, 1, 3, 4]);
    assert_eq!(layout.dims, [vec![piece(2, 12)], vec![], vec![piece(3, 4)], vec![piece(4, 1)]]);
    assert_eq!(layout.collapse().dims, [[piece(24, 1)]]);
    assert_eq!(layout.select(&[2, 3]).collapse().dims, [[piece(12, 1)]]);
    assert_eq!(layout.select(&[0, 1, 3]).collapse().dims, [[piece(2, 12), piece(4, 1)]]);
    assert_eq!(layout.complement(24).unwrap().dims, [[]]);
    assert_eq!(layout.select(&[2]).complement(24).unwrap().dims, [[piece(2, 12), piece(4, 1)]]);
}

#[test]
fn a_dimension_of_pieces_cannot_be_parted_unevenly() {
    let ends = Layout::row_major(&[3, 5, 2]).select(&[0, 2]).collapse();
    assert_eq!(ends.refine(0, &[2, 3]), None);
    assert_eq!(ends.refine(0, &[3, 2]).unwrap().dims, [[piece(3, 10)], [piece(2, 1)]]);
    assert_eq!(ends.refine(0, &[1, 6, 1]).unwrap().collapse(), ends);
}

#[test]
fn layouts_that_meet_twice_do_not_tile() {
    let by_two = Layout::row_major(&[3, 2]);
    let by_three = Layout::row_major(&[2, 3]);
    assert_eq!(by_two.clone().join(&by_two.select(&[1])).complement(6), None);
    assert_eq!(by_two.select(&[0]).join(&by_three.select(&[0])).complement(6), None);
    assert!(by_two.select(&[0]).join(&by_two.select(&[1])).complement(6).is_some());
    assert_eq!(by_two.complement(9), None);
}
