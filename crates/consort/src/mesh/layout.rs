//! Where the ranks of a mesh are in a list: arithmetic on sizes and strides, and nothing else.
//!
//! A layout says for every coordinate which place of the list it stands for. Each dimension is a row of
//! *pieces*, the outermost first. A piece is a number of steps, all equally long; an index along the
//! dimension is written with one digit for each piece, and the place is the sum of digits times strides.
//! A dimension of a fresh layout is one piece. One that was made of several can have more:
//!
//! ```text
//!  shape [2, 3, 4]               2:12   3:4   4:1
//!  the first and last as one     2:12,4:1
//!  the last two as one           12:1                  3:4,4:1 is the same as 12:1
//! ```
//!
//! So the shape of a mesh changes without its list. Pieces of size 1 are left out, and neighbours that can
//! be one are one: equal dimensions have equal pieces.
//!
//! Every layout here *tiles* its list: shifted by the places of its [complement](Layout::complement), it
//! has each place of the list once. Then no two coordinates stand for the same place, and a digit is found
//! by dividing.

#[cfg(test)]
mod tests;

/// So many places, each so far from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    size: usize,
    stride: usize,
}

/// Which place of a list each coordinate stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    dims: Vec<Vec<Piece>>,
}

impl Layout {
    /// A list that is read row by row: the last index changes first. No size is 0.
    pub(super) fn row_major(shape: &[usize]) -> Self {
        let mut stride = 1;
        let mut dims = Vec::with_capacity(shape.len());
        for &size in shape.iter().rev() {
            dims.push(merged(&[Piece { size, stride }]));
            stride *= size;
        }
        dims.reverse();
        Self { dims }
    }

    /// The dimensions of one after those of the other.
    pub(super) fn join(mut self, other: &Self) -> Self {
        self.dims.extend_from_slice(&other.dims);
        self
    }

    /// Only these dimensions, in this order.
    pub(super) fn select(&self, dims: &[usize]) -> Self {
        Self { dims: dims.iter().map(|&dim| self.dims[dim].clone()).collect() }
    }

    /// All but these dimensions.
    pub(super) fn without(&self, dims: &[usize]) -> Self {
        let rest: Vec<usize> = (0..self.ndim()).filter(|dim| !dims.contains(dim)).collect();
        self.select(&rest)
    }

    /// All dimensions as one, which has the same places in the same order.
    pub(super) fn collapse(&self) -> Self {
        Self { dims: vec![merged(&self.dims.concat())] }
    }

    /// One dimension as several, which have the same places in the same order. `None` if their sizes do
    /// not make up its own, or do not fit its pieces.
    pub(super) fn refine(&self, dim: usize, sizes: &[usize]) -> Option<Self> {
        let mut rest = self.dims[dim].clone();
        let inner_first = sizes.iter().rev().map(|&size| take_inner(&mut rest, size));
        let mut parts = inner_first.collect::<Option<Vec<_>>>()?;
        if !rest.is_empty() {
            return None;
        }
        parts.reverse();
        let mut dims = self.dims.clone();
        dims.splice(dim..=dim, parts);
        Some(Self { dims })
    }

    /// Where all others of its kind begin in a list of so many places, itself first: together they have
    /// each place once. `None` if it does not tile the list.
    pub(super) fn complement(&self, len: usize) -> Option<Self> {
        let mut pieces = self.dims.concat();
        pieces.sort_unstable_by_key(|piece| piece.stride);
        let mut gaps = Vec::new();
        let mut reach = 1;
        for Piece { size, stride } in pieces {
            gaps.push(steps(reach, stride)?);
            reach = size * stride;
        }
        gaps.push(steps(reach, len)?);
        gaps.reverse();
        Some(Self { dims: vec![merged(&gaps)] })
    }

    /// How many dimensions there are.
    pub(super) fn ndim(&self) -> usize {
        self.dims.len()
    }

    /// How many places there are along each dimension.
    pub(super) fn shape(&self) -> Vec<usize> {
        self.dims.iter().map(|pieces| size_of(pieces)).collect()
    }

    /// How many places it has.
    pub(super) fn numel(&self) -> usize {
        self.dims.iter().map(|pieces| size_of(pieces)).product()
    }

    /// How long a list has to be at least.
    pub(super) fn cosize(&self) -> usize {
        let far = |piece: &Piece| (piece.size - 1) * piece.stride;
        1 + self.dims.iter().flatten().map(far).sum::<usize>()
    }

    /// All places, in the order of coordinates: the last index changes first.
    pub(super) fn places(&self) -> Vec<usize> {
        let mut places = Vec::with_capacity(self.numel());
        places.push(0);
        for &Piece { size, stride } in self.dims.iter().flatten() {
            let beyond = |&from: &usize| (0..size).map(move |step| from + step * stride);
            places = places.iter().flat_map(beyond).collect();
        }
        places
    }

    /// The places of every row along these dimensions, row by row.
    pub(super) fn rows(&self, dims: &[usize]) -> Vec<Vec<usize>> {
        let row = self.select(dims).places();
        let from = |start: usize| row.iter().map(|place| start + place).collect();
        self.without(dims).places().into_iter().map(from).collect()
    }

    /// The place of a coordinate, each of whose indices exists.
    pub(super) fn place(&self, coordinate: &[usize]) -> usize {
        let along = |(pieces, &index): (&Vec<Piece>, &usize)| place_along(pieces, index);
        self.dims.iter().zip(coordinate).map(along).sum()
    }

    /// The coordinate of a place, if it has that.
    pub(super) fn coordinate(&self, place: usize) -> Option<Vec<usize>> {
        let digit = |index, &Piece { size, stride }: &Piece| index * size + place / stride % size;
        let coordinate: Vec<usize> =
            self.dims.iter().map(|pieces| pieces.iter().fold(0, digit)).collect();
        (self.place(&coordinate) == place).then_some(coordinate)
    }
}

/// The same places with as few pieces as can be.
fn merged(pieces: &[Piece]) -> Vec<Piece> {
    let mut merged: Vec<Piece> = Vec::with_capacity(pieces.len());
    for &piece in pieces.iter().filter(|piece| piece.size > 1) {
        match merged.last_mut() {
            Some(outer) if outer.stride == piece.size * piece.stride => {
                *outer = Piece { size: outer.size * piece.size, stride: piece.stride };
            }
            _ => merged.push(piece),
        }
    }
    merged
}

/// Takes so many places off the inner end. `None` if that would part a piece unevenly.
fn take_inner(pieces: &mut Vec<Piece>, mut size: usize) -> Option<Vec<Piece>> {
    let mut taken = Vec::new();
    while size > 1 {
        let inner = pieces.pop()?;
        let part = size.min(inner.size);
        if !size.is_multiple_of(part) || !inner.size.is_multiple_of(part) {
            return None;
        }
        if inner.size > part {
            pieces.push(Piece { size: inner.size / part, stride: inner.stride * part });
        }
        taken.push(Piece { size: part, stride: inner.stride });
        size /= part;
    }
    taken.reverse();
    Some(taken)
}

/// Steps of one length that make up another. `None` if they do not.
fn steps(stride: usize, len: usize) -> Option<Piece> {
    len.is_multiple_of(stride).then(|| Piece { size: len / stride, stride })
}

fn size_of(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| piece.size).product()
}

fn place_along(pieces: &[Piece], index: usize) -> usize {
    let digit = |(rest, place), &Piece { size, stride }: &Piece| {
        (rest / size, place + rest % size * stride)
    };
    pieces.iter().rev().fold((index, 0), digit).1
}
