//! The collectives on slices.

use consort_sys::dtype::{Dtype, Element, ReduceOp};
use consort_sys::view::{Source, Target};

use crate::call::{Call, Inputs, Operation, Outputs};
use crate::error::Result;
use crate::group::{Group, Rank};

/// # Collectives
///
/// Every rank of the group has to make the same calls, in the same order, with the same types,
/// counts, operations and roots; ranks that do not all get [`Error::Mismatch`](crate::Error). Results
/// are the same, bit by bit, on every rank. Each call is carried out on the calling thread and
/// returns when this rank's part is done.
///
/// A buffer that lies in [symmetric memory](crate::symm) on one rank has to lie there on all: it is
/// worked on where it is, which takes other steps than any other memory. Ranks that differ in this
/// get [`Error::Mismatch`](crate::Error), too.
impl Group {
    /// Waits until every rank has come.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// group.barrier()?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        self.call(&Call::Barrier)
    }

    /// Replaces every rank's numbers by the combination of all ranks'.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut gradients = [0.5_f32, -1.0];
    /// group.all_reduce(&mut gradients, consort::ReduceOp::Avg)?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[inline]
    #[track_caller]
    pub fn all_reduce<T: Element>(&self, buffer: &mut [T], op: ReduceOp) -> Result<()> {
        let output = T::target(buffer);
        self.call(&Call::AllReduce { dtype: T::DTYPE, op, input: output.into(), output })
    }

    /// As [`all_reduce`](Self::all_reduce), with the result elsewhere.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let gradients = [0.5_f32, -1.0];
    /// let mut averages = [0.0; 2];
    /// group.all_reduce_into(&gradients, &mut averages, consort::ReduceOp::Avg)?;
    /// # assert_eq!(averages, gradients);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[inline]
    #[track_caller]
    pub fn all_reduce_into<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        op: ReduceOp,
    ) -> Result<()> {
        let (input, output) = (T::source(input), T::target(output));
        self.call(&Call::AllReduce { dtype: T::DTYPE, op, input, output })
    }

    /// Replaces the numbers in several buffers by the combination of all ranks'. Small buffers
    /// travel together. Every rank has to give as many buffers, of the same lengths.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let (mut weights, mut bias) = ([0.5_f32; 64], [0.1_f32; 8]);
    /// group.all_reduce_coalesced(&mut [&mut weights, &mut bias], consort::ReduceOp::Avg)?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[track_caller]
    pub fn all_reduce_coalesced<T: Element>(
        &self,
        buffers: &mut [&mut [T]],
        op: ReduceOp,
    ) -> Result<()> {
        let total = buffers.iter().map(|buffer| buffer.len()).sum();
        if buffers.len() == 1 || size_of::<T>() * total > TOGETHER {
            for buffer in buffers {
                self.all_reduce(buffer, op)?;
            }
            return Ok(());
        }
        let mut together = Vec::with_capacity(total);
        buffers.iter().for_each(|buffer| together.extend_from_slice(buffer));
        let output = T::target(&mut together);
        let call = Call::AllReduce { dtype: T::DTYPE, op, input: output.into(), output };
        self.call_together(&call, buffers.iter().map(|buffer| buffer.len()))?;
        let mut rest = &together[..];
        for buffer in buffers {
            let (head, tail) = rest.split_at(buffer.len());
            buffer.copy_from_slice(head);
            rest = tail;
        }
        Ok(())
    }

    /// Gives the root's numbers to every rank.
    ///
    /// The root does not wait for the others if they are not far behind; should they make another
    /// call, it hears of that in one of its next thirty.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut weights = [0.25_f32; 8];
    /// group.broadcast(&mut weights, 0)?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[inline]
    #[track_caller]
    pub fn broadcast<T: Element>(&self, buffer: &mut [T], root: impl Into<Rank>) -> Result<()> {
        let (root, buffer) = (root.into(), T::target(buffer));
        self.call(&Call::Broadcast { dtype: T::DTYPE, root, buffer })
    }

    /// Replaces the root's numbers by the combination of all ranks'. The other ranks' stay as they
    /// are.
    ///
    /// A rank that is not the root does not wait for the others if they are not far behind; should
    /// they make another call, it hears of that in one of its next thirty.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut losses = [0.5_f64];
    /// group.reduce(&mut losses, consort::ReduceOp::Max, 0)?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[track_caller]
    pub fn reduce<T: Element>(
        &self,
        buffer: &mut [T],
        op: ReduceOp,
        root: impl Into<Rank>,
    ) -> Result<()> {
        let (root, buffer) = (root.into(), T::target(buffer));
        let output = (root == self.rank()).then_some(buffer);
        self.call(&Call::Reduce { dtype: T::DTYPE, op, root, input: buffer.into(), output })
    }

    /// As [`reduce`](Self::reduce), with the result elsewhere. Only the root gives an output.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut total = [0_u64; 2];
    /// let output = (group.rank().get() == 0).then_some(&mut total[..]);
    /// group.reduce_into(&[3, 4], output, consort::ReduceOp::Sum, 0)?;
    /// # assert_eq!(total, [3, 4]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[track_caller]
    pub fn reduce_into<T: Element>(
        &self,
        input: &[T],
        output: Option<&mut [T]>,
        op: ReduceOp,
        root: impl Into<Rank>,
    ) -> Result<()> {
        let (root, input, output) = (root.into(), T::source(input), output.map(T::target));
        self.call(&Call::Reduce { dtype: T::DTYPE, op, root, input, output })
    }

    /// Gives every rank the numbers of all, one behind the other in the order of ranks.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut everyone = vec![0; 2 * group.world()];
    /// group.all_gather(&[3_i64, 4], &mut everyone)?;
    /// assert_eq!(everyone[..2], [3, 4]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[inline]
    #[track_caller]
    pub fn all_gather<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<()> {
        let (input, outputs) = (T::source(input), Outputs::Equal(T::target(output)));
        self.call(&Call::AllGather { dtype: T::DTYPE, input, outputs })
    }

    /// As [`all_gather`](Self::all_gather), with this rank's numbers already at their place.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut everyone = vec![0.0_f32; 4 * group.world()];
    /// let mine = group.rank().index() * 4;
    /// everyone[mine..mine + 4].fill(1.0);
    /// group.all_gather_in_place(&mut everyone)?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[track_caller]
    pub fn all_gather_in_place<T: Element>(&self, buffer: &mut [T]) -> Result<()> {
        let outputs = Outputs::Equal(T::target(buffer));
        let input = outputs.part(self.rank().index(), self.world()).into();
        self.call(&Call::AllGather { dtype: T::DTYPE, input, outputs })
    }

    /// As [`all_gather`](Self::all_gather), into a buffer for each rank. The buffers may differ in
    /// size, if all ranks give the same sizes.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// // Rank r has r + 1 words.
    /// let mut lists: Vec<Vec<u16>> = (1..=group.world()).map(|count| vec![0; count]).collect();
    /// let mine = vec![7; group.rank().index() + 1];
    /// let mut outputs: Vec<&mut [u16]> = lists.iter_mut().map(|list| &mut list[..]).collect();
    /// group.all_gather_list(&mine, &mut outputs)?;
    /// assert_eq!(lists[0], [7]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[track_caller]
    pub fn all_gather_list<T: Element>(&self, input: &[T], outputs: &mut [&mut [T]]) -> Result<()> {
        let (input, outputs) = (T::source(input), targets(outputs));
        self.call(&Call::AllGather { dtype: T::DTYPE, input, outputs: Outputs::List(&outputs) })
    }

    /// Gives the root the numbers of all ranks, one behind the other in the order of ranks. Only
    /// the root gives an output. Others than the root do not wait, as in [`reduce`](Self::reduce).
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut everyone = [0_u8; 1];
    /// group.gather(&[7], Some(&mut everyone), 0)?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[track_caller]
    pub fn gather<T: Element>(
        &self,
        input: &[T],
        output: Option<&mut [T]>,
        root: impl Into<Rank>,
    ) -> Result<()> {
        let (root, dtype, input) = (root.into(), T::DTYPE, T::source(input));
        let outputs = output.map(|output| Outputs::Equal(T::target(output)));
        self.call(&Call::Gather { dtype, root, uneven: false, input, outputs })
    }

    /// As [`gather`](Self::gather), into a buffer for each rank, as large as that rank's input.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// // Only the root has to know how much comes from each rank.
    /// let mut found = [0_u32; 3];
    /// let mut outputs = [&mut found[..]];
    /// group.gather_list(&[1, 2, 3], Some(&mut outputs), 0)?;
    /// assert_eq!(found, [1, 2, 3]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[track_caller]
    pub fn gather_list<T: Element>(
        &self,
        input: &[T],
        outputs: Option<&mut [&mut [T]]>,
        root: impl Into<Rank>,
    ) -> Result<()> {
        let (root, dtype, input) = (root.into(), T::DTYPE, T::source(input));
        let outputs = outputs.map(targets);
        let outputs = outputs.as_deref().map(Outputs::List);
        self.call(&Call::Gather { dtype, root, uneven: true, input, outputs })
    }

    /// Gives every rank its part of the root's numbers, which has equal parts in the order of
    /// ranks. Only the root gives an input, and does not wait, as in [`broadcast`](Self::broadcast).
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut mine = [0_u16; 1];
    /// group.scatter(Some(&[7]), &mut mine, 0)?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[track_caller]
    pub fn scatter<T: Element>(
        &self,
        input: Option<&[T]>,
        output: &mut [T],
        root: impl Into<Rank>,
    ) -> Result<()> {
        let (root, dtype, output) = (root.into(), T::DTYPE, T::target(output));
        let inputs = input.map(|input| Inputs::Equal(T::source(input)));
        self.call(&Call::Scatter { dtype, root, uneven: false, inputs, output })
    }

    /// As [`scatter`](Self::scatter), from a buffer for each rank, as large as that rank's output.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut mine = [0_i32; 2];
    /// group.scatter_list(Some(&[&[5, 6]]), &mut mine, 0)?;
    /// assert_eq!(mine, [5, 6]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[track_caller]
    pub fn scatter_list<T: Element>(
        &self,
        inputs: Option<&[&[T]]>,
        output: &mut [T],
        root: impl Into<Rank>,
    ) -> Result<()> {
        let (root, dtype, output) = (root.into(), T::DTYPE, T::target(output));
        let inputs = inputs.map(sources);
        let inputs = inputs.as_deref().map(Inputs::List);
        self.call(&Call::Scatter { dtype, root, uneven: true, inputs, output })
    }

    /// Gives every rank the combination of all ranks' part for it. The input has equal parts in the
    /// order of ranks.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut mine = [0.0_f32; 2];
    /// group.reduce_scatter(&[1.0, 2.0], &mut mine, consort::ReduceOp::Sum)?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[inline]
    #[track_caller]
    pub fn reduce_scatter<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        op: ReduceOp,
    ) -> Result<()> {
        let (inputs, output) = (Inputs::Equal(T::source(input)), T::target(output));
        self.call(&Call::ReduceScatter { dtype: T::DTYPE, op, inputs, output })
    }

    /// As [`reduce_scatter`](Self::reduce_scatter), with the result at the place of this rank's
    /// part. The other parts stay as they are.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut gradients = vec![1.0_f32; 4 * group.world()];
    /// group.reduce_scatter_in_place(&mut gradients, consort::ReduceOp::Avg)?;
    /// let mine = &gradients[group.rank().index() * 4..][..4];
    /// assert_eq!(mine, [1.0; 4]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[track_caller]
    pub fn reduce_scatter_in_place<T: Element>(
        &self,
        buffer: &mut [T],
        op: ReduceOp,
    ) -> Result<()> {
        let buffer = T::target(buffer);
        let output = Outputs::Equal(buffer).part(self.rank().index(), self.world());
        let inputs = Inputs::Equal(buffer.into());
        self.call(&Call::ReduceScatter { dtype: T::DTYPE, op, inputs, output })
    }

    /// As [`reduce_scatter`](Self::reduce_scatter), from a buffer for each rank. The buffers may
    /// differ in size, if all ranks give the same sizes.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// // Parts of different sizes, the same on all ranks.
    /// let parts: Vec<Vec<f32>> = (1..=group.world()).map(|count| vec![1.0; count]).collect();
    /// let inputs: Vec<&[f32]> = parts.iter().map(|part| &part[..]).collect();
    /// let mut mine = vec![0.0; group.rank().index() + 1];
    /// group.reduce_scatter_list(&inputs, &mut mine, consort::ReduceOp::Sum)?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[track_caller]
    pub fn reduce_scatter_list<T: Element>(
        &self,
        inputs: &[&[T]],
        output: &mut [T],
        op: ReduceOp,
    ) -> Result<()> {
        let (inputs, output) = (sources(inputs), T::target(output));
        let inputs = Inputs::List(&inputs);
        self.call(&Call::ReduceScatter { dtype: T::DTYPE, op, inputs, output })
    }

    /// Gives every rank the parts of all ranks' numbers that are for it. Input and output have
    /// equal parts in the order of ranks.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut from_everyone = [0_u32; 1];
    /// group.all_to_all(&[5], &mut from_everyone)?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[inline]
    #[track_caller]
    pub fn all_to_all<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<()> {
        let (inputs, outputs) =
            (Inputs::Equal(T::source(input)), Outputs::Equal(T::target(output)));
        self.call(&Call::AllToAll { dtype: T::DTYPE, uneven: false, inputs, outputs })
    }

    /// As [`all_to_all`](Self::all_to_all), with each rank's part replaced by what came from it.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut parts = vec![group.rank().get(); group.world()];
    /// group.all_to_all_in_place(&mut parts)?;
    /// assert!(parts.into_iter().eq(0..group.world() as u32));
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[track_caller]
    pub fn all_to_all_in_place<T: Element>(&self, buffer: &mut [T]) -> Result<()> {
        let buffer = T::target(buffer);
        let (inputs, outputs) = (Inputs::Equal(buffer.into()), Outputs::Equal(buffer));
        self.call(&Call::AllToAll { dtype: T::DTYPE, uneven: false, inputs, outputs })
    }

    /// As [`all_to_all`](Self::all_to_all), with parts of different sizes: `input_counts[r]`
    /// elements go to rank r, `output_counts[r]` come from it.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// // How many tokens go to each expert is known only here, so the counts are exchanged first.
    /// let tokens = [1.0_f32, 2.0, 3.0];
    /// let to = [3];
    /// let mut from = [0_u64];
    /// group.all_to_all(&to.map(|count| count as u64), &mut from)?;
    /// let from = from.map(|count| count as usize);
    /// let mut received = vec![0.0; from.iter().sum()];
    /// group.all_to_all_uneven(&tokens, &to, &mut received, &from)?;
    /// assert_eq!(received, tokens);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call). Counts that do not add up are refused before anything moves.
    #[track_caller]
    pub fn all_to_all_uneven<T: Element>(
        &self,
        input: &[T],
        input_counts: &[usize],
        output: &mut [T],
        output_counts: &[usize],
    ) -> Result<()> {
        let inputs = parts(input.len(), input_counts, "input")?
            .map(|range| T::source(&input[range]))
            .collect::<Vec<_>>();
        let all = T::target(output);
        let bytes = |range: std::ops::Range<usize>| {
            range.start * T::DTYPE.size()..range.end * T::DTYPE.size()
        };
        let outputs = parts(all.len() / T::DTYPE.size(), output_counts, "output")?
            .map(|range| all.slice(bytes(range)))
            .collect::<Vec<_>>();
        self.all_to_all_parts(T::DTYPE, &inputs, &outputs)
    }

    /// As [`all_to_all`](Self::all_to_all), from a buffer for each rank into a buffer for each rank.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut from_everyone = [0_u8; 2];
    /// group.all_to_all_list(&[&[8, 9]], &mut [&mut from_everyone])?;
    /// assert_eq!(from_everyone, [8, 9]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[track_caller]
    pub fn all_to_all_list<T: Element>(
        &self,
        inputs: &[&[T]],
        outputs: &mut [&mut [T]],
    ) -> Result<()> {
        self.all_to_all_parts(T::DTYPE, &sources(inputs), &targets(outputs))
    }

    fn all_to_all_parts(
        &self,
        dtype: Dtype,
        inputs: &[Source<'_>],
        outputs: &[Target<'_>],
    ) -> Result<()> {
        let (inputs, outputs) = (Inputs::List(inputs), Outputs::List(outputs));
        self.call(&Call::AllToAll { dtype, uneven: true, inputs, outputs })
    }
}

fn sources<'a, T: Element>(parts: &[&'a [T]]) -> Vec<Source<'a>> {
    parts.iter().map(|part| T::source(part)).collect()
}

fn targets<'a, T: Element>(parts: &'a mut [&mut [T]]) -> Vec<Target<'a>> {
    parts.iter_mut().map(|part| T::target(part)).collect()
}

/// Parts of these sizes one behind the other, which have to be all there is.
fn parts(
    len: usize,
    counts: &[usize],
    what: &str,
) -> Result<impl Iterator<Item = std::ops::Range<usize>>> {
    let total = counts.iter().try_fold(0_usize, |sum, &count| sum.checked_add(count));
    if total != Some(len) {
        let counts = format!("{what}_counts do not add up to the {len} elements of {what}");
        let message = format!("{}: {counts}", Operation::AllToAll);
        return Err(crate::Error::Argument(message));
    }
    Ok(counts.iter().scan(0, |start, &count| {
        let range = *start..*start + count;
        *start = range.end;
        Some(range)
    }))
}

/// Up to so many bytes, copying buffers together costs less than a call for each.
const TOGETHER: usize = 64 << 10;
