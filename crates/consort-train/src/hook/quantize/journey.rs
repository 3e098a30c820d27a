//! The way of one bucket: to those who add up, and from them to all.

use std::ops::Range;
use std::sync::Arc;

use consort::{Dtype, Group, Work};

use super::shares::Shares;
use crate::bucket::Bucket;
use crate::convert::convert;
use crate::error::Result;
use crate::hook::residues::Residues;
use crate::hook::{CompressionStats, Pending, Round};

/// A bucket whose gradients travel as bytes.
struct Journey {
    bucket: Bucket,
    shares: Shares,
    /// This rank's gradients with what was lost of the last ones; then what is lost of these.
    numbers: Vec<f32>,
    feedback: Option<Arc<Residues<f32>>>,
    group: Group,
    divisor: usize,
}

/// Begins with a bucket: bytes are on their way then to those who add them up.
pub(crate) fn begin(
    bucket: Bucket,
    round: &Round<'_>,
    feedback: Option<Arc<Residues<f32>>>,
    stats: &CompressionStats,
) -> Result<Pending> {
    let shares = Shares::of(&bucket, round.group.world());
    stats.add(bucket.bytes().len(), shares.bytes());
    let (numbers, group) = (vec![0.0; shares.len()], round.group.clone());
    let divisor = round.divisor;
    let mut journey = Journey { bucket, shares, numbers, feedback, group, divisor };
    let work = journey.send()?;
    Ok(Pending::new(move || journey.finish(work)))
}

impl Journey {
    /// Sends each rank the bytes of its share.
    fn send(&mut self) -> Result<Work<(Vec<u8>, Vec<u8>)>> {
        self.load()?;
        let Self { shares, numbers, .. } = self;
        let (world, room) = (self.group.world(), shares.room());
        let mut bytes = vec![0; room * world];
        for rank in 0..world {
            let (mine, numbers) = (part(room, rank), &mut numbers[shares.numbers(rank)]);
            shares.encode(rank, numbers, &mut bytes[mine.clone()]);
            let sent = shares.decode(rank, &bytes[mine]);
            numbers.iter_mut().zip(sent).for_each(|(number, sent)| *number -= sent);
        }
        let arriving = vec![0; bytes.len()];
        let work = self.group.all_to_all_async(bytes, arriving);
        Ok(work.map_err(consort::Error::from)?)
    }

    /// Everyone's bytes of this rank's share are there: adds them up, and sends all the averages.
    fn finish(mut self, work: Work<(Vec<u8>, Vec<u8>)>) -> Result<Bucket> {
        let (_, arrived) = work.wait().map_err(consort::Error::from)?;
        let mine = self.average_share(&arrived);
        let mut averages = vec![0; mine.len() * self.group.world()];
        self.group.all_gather(&mine, &mut averages)?;
        self.store(&averages)?;
        Ok(self.bucket)
    }

    /// The averages of this rank's share as bytes.
    fn average_share(&mut self, arrived: &[u8]) -> Vec<u8> {
        let Self { shares, numbers, group, divisor, .. } = self;
        let (me, room, divisor) = (group.rank().index(), shares.room(), *divisor as f32);
        let mut sums = vec![0.0; shares.numbers(me).len()];
        for rank in 0..group.world() {
            let theirs = shares.decode(me, &arrived[part(room, rank)]);
            sums.iter_mut().zip(theirs).for_each(|(sum, number)| *sum += number);
        }
        sums.iter_mut().for_each(|sum| *sum /= divisor);
        let mut bytes = vec![0; room];
        shares.encode(me, &sums, &mut bytes);
        // What is lost here, all ranks have lost. It comes back through this one, divided again.
        let lost = sums.iter().zip(shares.decode(me, &bytes)).map(|(sum, given)| sum - given);
        let mine = numbers[shares.numbers(me)].iter_mut();
        mine.zip(lost).for_each(|(number, lost)| *number += lost * divisor);
        bytes
    }

    fn load(&mut self) -> Result<()> {
        let Self { bucket, shares, numbers, feedback, .. } = self;
        for (at, (gradient, range)) in bucket.gradients().zip(&shares.gradients).enumerate() {
            let numbers = &mut numbers[range.clone()];
            let room = bytemuck::cast_slice_mut(numbers);
            convert((bucket.dtype(), bucket.part(at)), (Dtype::F32, room))?;
            if let Some(lost) = feedback.as_ref().and_then(|all| all.take(gradient.index)) {
                numbers.iter_mut().zip(lost).for_each(|(number, lost)| *number += lost);
            }
        }
        Ok(())
    }

    /// Puts the averages into the bucket, and keeps what was lost.
    fn store(&mut self, bytes: &[u8]) -> Result<()> {
        let Self { bucket, shares, numbers, feedback, group, divisor } = self;
        let room = shares.room();
        let shares_of_all = (0..group.world()).map(|rank| (rank, &bytes[part(room, rank)]));
        let averages: Vec<f32> =
            shares_of_all.flat_map(|(rank, bytes)| shares.decode(rank, bytes)).collect();
        for (at, range) in shares.gradients.iter().enumerate() {
            let given = (Dtype::F32, bytemuck::cast_slice(&averages[range.clone()]));
            convert(given, (bucket.dtype(), bucket.part_mut(at)))?;
        }
        let Some(feedback) = feedback else { return Ok(()) };
        // What every rank loses by rounding counts as often as there are ranks.
        let share = *divisor as f32 / group.world() as f32;
        let mut rounded = vec![0.0_f32; numbers.len()];
        for (at, (gradient, range)) in bucket.gradients().zip(&shares.gradients).enumerate() {
            let rounded = &mut rounded[range.clone()];
            let room = bytemuck::cast_slice_mut(rounded);
            convert((bucket.dtype(), bucket.part(at)), (Dtype::F32, room))?;
            let given = averages[range.clone()].iter().zip(&*rounded);
            let lost = numbers[range.clone()].iter().zip(given);
            // Nothing is added to the next gradient for one that was not finite.
            let lost = lost.map(|(lost, (given, rounded))| lost + share * (given - rounded));
            let lost = lost.map(|lost| if lost.is_finite() { lost } else { 0.0 }).collect();
            feedback.keep(gradient.index, lost);
        }
        Ok(())
    }
}

/// Where a rank's bytes are.
fn part(room: usize, rank: usize) -> Range<usize> {
    rank * room..(rank + 1) * room
}
