//! Who adds up what: gradients cut into blocks, and blocks dealt out to ranks.

use std::ops::Range;

use super::block::{dequantise, quantise};
use crate::bucket::Bucket;

/// The numbers of all gradients of a bucket, one behind the other, in blocks. A rank's share is some blocks
/// that follow each other, nearly as many bytes for each rank.
///
/// A share travels as the scales of its blocks and then their numbers. All get as much room as the largest
/// needs.
#[derive(Debug)]
pub(crate) struct Shares {
    /// The numbers of each gradient.
    pub(crate) gradients: Vec<Range<usize>>,
    blocks: Vec<Range<usize>>,
    /// Each rank's blocks.
    shares: Vec<Range<usize>>,
}

impl Shares {
    pub(crate) fn of(bucket: &Bucket, world: usize) -> Self {
        let size = bucket.dtype().size();
        Self::new(bucket.gradients().map(|gradient| gradient.bytes.len() / size), world)
    }

    fn new(lens: impl Iterator<Item = usize>, world: usize) -> Self {
        let mut end = 0;
        let gradients: Vec<Range<usize>> = lens
            .map(|len| {
                end += len;
                end - len..end
            })
            .collect();
        // A block ends with its gradient: others may be much smaller.
        let cut = |gradient: &Range<usize>| {
            let end = gradient.end;
            gradient.clone().step_by(BLOCK).map(move |start| start..end.min(start + BLOCK))
        };
        let blocks: Vec<Range<usize>> = gradients.iter().flat_map(cut).collect();
        let bytes_before = |block: usize| {
            blocks.get(block).map_or(end, |block| block.start) + block * size_of::<f32>()
        };
        let total = bytes_before(blocks.len());
        let order: Vec<usize> = (0..blocks.len()).collect();
        let first = |rank: usize| {
            order.partition_point(|&block| bytes_before(block) < total * rank / world)
        };
        let shares = (0..world).map(|rank| first(rank)..first(rank + 1)).collect();
        Self { gradients, blocks, shares }
    }

    /// How many numbers there are.
    pub(crate) fn len(&self) -> usize {
        self.gradients.last().map_or(0, |gradient| gradient.end)
    }

    /// How many bytes stand for all of them.
    pub(crate) fn bytes(&self) -> usize {
        (0..self.shares.len()).map(|rank| self.bytes_of(rank)).sum()
    }

    /// How many bytes each rank's share has room in.
    pub(crate) fn room(&self) -> usize {
        (0..self.shares.len()).map(|rank| self.bytes_of(rank)).max().unwrap_or(0)
    }

    /// The numbers of a rank's share.
    pub(crate) fn numbers(&self, rank: usize) -> Range<usize> {
        let blocks = &self.blocks[self.shares[rank].clone()];
        match (blocks.first(), blocks.last()) {
            (Some(first), Some(last)) => first.start..last.end,
            _ => 0..0,
        }
    }

    /// Writes the numbers of a rank's share as bytes.
    pub(crate) fn encode(&self, rank: usize, numbers: &[f32], bytes: &mut [u8]) {
        let (scales, mut rest) = bytes.split_at_mut(self.shares[rank].len() * size_of::<f32>());
        for (block, scale) in self.blocks_of(rank).zip(scales.chunks_exact_mut(size_of::<f32>())) {
            let mine;
            (mine, rest) = rest.split_at_mut(block.len());
            scale.copy_from_slice(&quantise(&numbers[block], mine).to_ne_bytes());
        }
    }

    /// Gives the numbers of a rank's share.
    pub(crate) fn decode<'a>(
        &'a self,
        rank: usize,
        bytes: &'a [u8],
    ) -> impl Iterator<Item = f32> + 'a {
        let (scales, mut rest) = bytes.split_at(self.shares[rank].len() * size_of::<f32>());
        let scales = scales.chunks_exact(size_of::<f32>());
        self.blocks_of(rank).zip(scales).flat_map(move |(block, scale)| {
            let mine;
            (mine, rest) = rest.split_at(block.len());
            let scale = scale.try_into().expect("a scale has four bytes");
            dequantise(mine, f32::from_ne_bytes(scale))
        })
    }

    /// The blocks of a rank's share, as places of numbers in it.
    fn blocks_of(&self, rank: usize) -> impl Iterator<Item = Range<usize>> {
        let start = self.numbers(rank).start;
        let blocks = self.blocks[self.shares[rank].clone()].iter();
        blocks.map(move |block| block.start - start..block.end - start)
    }

    fn bytes_of(&self, rank: usize) -> usize {
        self.numbers(rank).len() + self.shares[rank].len() * size_of::<f32>()
    }
}

/// So many numbers share a scale, which makes them 1.6 % longer.
const BLOCK: usize = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_gradient_of_whole_blocks_has_no_other_and_a_block_ends_with_its_gradient() {
        let shares = Shares::new([512, 0, 257, 1].into_iter(), 1);
        assert_eq!(shares.gradients, [0..512, 512..512, 512..769, 769..770]);
        assert_eq!(shares.blocks, [0..256, 256..512, 512..768, 768..769, 769..770]);
        assert_eq!((shares.len(), shares.bytes(), shares.room()), (770, 790, 790));
    }

    #[test]
    fn there_may_be_more_ranks_than_blocks() {
        let shares = Shares::new([3].into_iter(), 4);
        let numbers: Vec<Range<usize>> = (0..4).map(|rank| shares.numbers(rank)).collect();
        assert_eq!(numbers.iter().map(Range::len).sum::<usize>(), 3);
        assert_eq!((shares.bytes(), shares.room()), (7, 7));
        assert_eq!(Shares::new([].into_iter(), 2).bytes(), 0);
    }

    proptest! {
        #[test]
        fn every_number_is_in_one_share_and_shares_are_about_as_large(
            lens in prop::collection::vec(0..1500_usize, 0..10),
            world in 1..9_usize,
        ) {
            let shares = Shares::new(lens.iter().copied(), world);
            prop_assert_eq!(shares.len(), lens.iter().sum::<usize>());
            let all = (0..world).flat_map(|rank| shares.numbers(rank)).collect::<Vec<_>>();
            prop_assert_eq!(all, (0..shares.len()).collect::<Vec<_>>());
            let largest = BLOCK + size_of::<f32>();
            prop_assert!(shares.room() <= shares.bytes() / world + 2 * largest);
        }

        #[test]
        fn what_is_encoded_comes_out_again(
            lens in prop::collection::vec(0..600_usize, 0..5),
            world in 1..5_usize,
        ) {
            let shares = Shares::new(lens.iter().copied(), world);
            // Every block has the same largest number, so that all others are whole steps.
            let number = |at: usize| if at.is_multiple_of(2) { 127.0 } else { at as f32 % 100.0 };
            for rank in 0..world {
                let mut mine: Vec<f32> = shares.numbers(rank).map(number).collect();
                for block in shares.blocks_of(rank) {
                    mine[block.start] = -127.0;
                }
                let mut bytes = vec![77; shares.room()];
                shares.encode(rank, &mine, &mut bytes);
                prop_assert_eq!(shares.decode(rank, &bytes).collect::<Vec<_>>(), mine);
            }
        }
    }
}
