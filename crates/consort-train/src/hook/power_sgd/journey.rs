//! The way of one bucket: out in a few columns, and back.

use std::sync::Arc;

use consort::{Group, ReduceOp, Work};

use super::grouping::{Block, Grouping};
use super::kept::Kept;
use super::matrix::{Real, orthonormalise};
use super::settings::Settings;
use crate::bucket::Bucket;
use crate::error::Result;
use crate::hook::order::{load, store};
use crate::hook::{CompressionStats, Pending, Round};

/// A bucket of which some gradients are compressed.
pub(crate) struct Journey<T> {
    bucket: Bucket,
    matrices: Vec<Matrix<T>>,
    /// A bucket with those that are not compressed, on its way.
    rest: Option<(Vec<usize>, Pending)>,
    kept: Arc<Kept<T>>,
    settings: Settings,
    group: Group,
    divisor: usize,
}

/// What is kept of a bucket, and how.
struct Keeping<'a, T> {
    kept: &'a Kept<T>,
    settings: &'a Settings,
    /// How much of the averages this rank has given, for all ranks' parts to add up to what was lost. It is
    /// 1 unless sums are divided by another number than that of ranks.
    share: T,
}

/// Gradients of this rank with what was lost of the last ones, in the order of indices.
struct Matrix<T> {
    block: Block,
    numbers: Vec<T>,
}

/// Begins with a bucket: what is not compressed is on its way then, and so are the left columns.
pub(crate) fn begin<T: Real>(
    bucket: Bucket,
    (round, pass): (&Round<'_>, u64),
    settings: &Settings,
    kept: &Arc<Kept<T>>,
    stats: &CompressionStats,
) -> Result<Pending> {
    let Grouping { blocks, rest } = Grouping::of(&bucket, settings);
    let before = bucket.bytes().len();
    if blocks.is_empty() {
        stats.add(before, before);
        return round.average(bucket);
    }
    let mut after = 0;
    let rest = match rest.is_empty() {
        true => None,
        false => {
            let apart = take_apart(&bucket, &rest);
            after += apart.bytes().len();
            Some((rest, round.average(apart)?))
        }
    };
    let mut lefts = Vec::new();
    let mut matrices = Vec::with_capacity(blocks.len());
    for block in blocks {
        let matrix = Matrix::load(&bucket, block, kept)?;
        let (shape, right) = (matrix.block.shape, kept.right(&matrix.block, pass, settings));
        let start = lefts.len();
        lefts.resize(start + shape.left(), T::default());
        shape.multiply(&matrix.numbers, &right, &mut lefts[start..]);
        after += (shape.left() + shape.right()) * T::DTYPE.size();
        matrices.push(matrix);
    }
    stats.add(before, after);
    let work = round.group.all_reduce_async(lefts, ReduceOp::Sum).map_err(consort::Error::from)?;
    let (kept, settings, group) = (kept.clone(), settings.clone(), round.group.clone());
    let divisor = round.divisor;
    let journey = Journey { bucket, matrices, rest, kept, settings, group, divisor };
    Ok(Pending::new(move || journey.finish(work)))
}

impl<T: Real> Journey<T> {
    /// The left columns are there: makes the right ones of them, and of both the averages.
    fn finish(mut self, lefts: Work<Vec<T>>) -> Result<Bucket> {
        let mut lefts = lefts.wait().map_err(consort::Error::from)?;
        let rights = self.rights(&mut lefts)?;
        let (mut lefts, mut rights) = (&lefts[..], &rights[..]);
        let share = T::near(self.divisor as f64 / self.group.world() as f64);
        let keeping = Keeping { kept: &*self.kept, settings: &self.settings, share };
        for matrix in self.matrices {
            let shape = matrix.block.shape;
            let (left, right);
            (left, lefts) = lefts.split_at(shape.left());
            (right, rights) = rights.split_at(shape.right());
            matrix.store((left, right), &mut self.bucket, &keeping)?;
        }
        if let Some((parts, apart)) = self.rest {
            let apart = apart.wait()?;
            for (at, &part) in parts.iter().enumerate() {
                self.bucket.part_mut(part).copy_from_slice(apart.part(at));
            }
        }
        Ok(self.bucket)
    }

    /// Makes the left columns perpendicular, and averages the right columns that belong to them.
    fn rights(&self, mut lefts: &mut [T]) -> Result<Vec<T>> {
        let mut rights = Vec::new();
        for Matrix { block, numbers } in &self.matrices {
            let left;
            (left, lefts) = lefts.split_at_mut(block.shape.left());
            orthonormalise(left, block.shape.rows, None);
            let start = rights.len();
            rights.resize(start + block.shape.right(), T::default());
            block.shape.multiply_transposed(numbers, left, &mut rights[start..]);
        }
        self.group.all_reduce(&mut rights, ReduceOp::Sum)?;
        let divisor = T::near(self.divisor as f64);
        rights.iter_mut().for_each(|number| *number = *number / divisor);
        Ok(rights)
    }
}

impl<T: Real> Matrix<T> {
    fn load(bucket: &Bucket, block: Block, kept: &Kept<T>) -> Result<Self> {
        let mut numbers = vec![T::default(); block.shape.len()];
        let mut rest = &mut numbers[..];
        for (&part, &parameter) in block.parts.iter().zip(&block.parameters) {
            let mine;
            (mine, rest) = rest.split_at_mut(len_of(bucket, part));
            load(bucket, part, mine)?;
            if let Some(residue) = kept.residues.take(parameter) {
                mine.iter_mut().zip(residue).for_each(|(number, lost)| *number = *number + lost);
            }
        }
        Ok(Self { block, numbers })
    }

    /// Puts what the columns stand for into the bucket, and keeps what they do not.
    fn store(
        self,
        (left, right): (&[T], &[T]),
        bucket: &mut Bucket,
        keeping: &Keeping<'_, T>,
    ) -> Result<()> {
        let &Keeping { kept, settings, share } = keeping;
        let Self { block, mut numbers } = self;
        let mut averages = vec![T::default(); numbers.len()];
        block.shape.expand(left, right, &mut averages);
        let mut start = 0;
        for (&part, &parameter) in block.parts.iter().zip(&block.parameters) {
            let range = start..start + len_of(bucket, part);
            start = range.end;
            let given = &mut averages[range.clone()];
            store(bucket, part, given)?;
            if settings.has_feedback {
                // As it was rounded there.
                load(bucket, part, given)?;
                let lost = &mut numbers[range];
                lost.iter_mut()
                    .zip(&*given)
                    .for_each(|(lost, &given)| *lost = *lost - share * given);
                kept.keep_residue(parameter, lost);
            }
        }
        if settings.is_warm {
            kept.keep_right(&block, right);
        }
        Ok(())
    }
}

/// A bucket with some of another's gradients.
fn take_apart(bucket: &Bucket, parts: &[usize]) -> Bucket {
    let mut apart = bucket.of_parts(parts);
    for (at, &part) in parts.iter().enumerate() {
        apart.part_mut(at).copy_from_slice(bucket.part(part));
    }
    apart
}

fn len_of(bucket: &Bucket, part: usize) -> usize {
    bucket.part(part).len() / bucket.dtype().size()
}
