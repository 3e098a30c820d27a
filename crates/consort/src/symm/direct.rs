//! Collectives on windows.
//!
//! They are calls of the group like any other, and are counted and compared as such. Their operand
//! is each rank's own window, which the rank keeps for itself from before its call to the end of
//! it: what the others do with it there, they do in the same call.

use consort_sys::dtype::ReduceOp;
use consort_sys::window::Plain;

use super::Symmetric;
use crate::call::{Call, Inputs, Outputs};
use crate::error::Result;
use crate::group::Rank;

/// # Collectives
///
/// Every rank has to make the same calls, as with those of the [`Group`](crate::Group). No data is
/// copied to where the others can reach it: it is there. Each of them fails as the group's calls do,
/// and as [`local`](Self::local) does. A rank that holds another's window keeps it from its call.
///
/// A rank in one of these calls holds its window until everyone has made the call. What others have
/// to put there first is put before a [`barrier`](Self::barrier), or before a signal that the owner
/// waits for.
impl<T: Plain> Symmetric<T> {
    /// Combines the windows of all ranks into everyone's output: each rank reads all of them. Right
    /// for little data or few ranks. The windows stay as they are.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let logits = group.symmetric::<f32>(16)?;
    /// logits.local()?.fill(0.5);
    /// let mut sums = [0.0; 16];
    /// logits.one_shot_all_reduce(&mut sums, consort::ReduceOp::Sum)?;
    /// assert_eq!(sums[0], 0.5 * group.world() as f32);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`Group::call`](crate::Group::call), [`local`](Self::local).
    #[track_caller]
    pub fn one_shot_all_reduce(&self, output: &mut [T], op: ReduceOp) -> Result<()> {
        let window = self.local()?;
        let (dtype, input, output) = (T::DTYPE, T::source(&window), T::target(output));
        self.group.call_in_windows(&Call::AllReduce { dtype, op, input, output })
    }

    /// Replaces every window by the combination of all of them: each rank combines its slice, and
    /// copies the others' slices when they have.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let gradients = group.symmetric::<f32>(4096)?;
    /// gradients.local()?.fill(2.0);
    /// gradients.two_shot_all_reduce(consort::ReduceOp::Avg)?;
    /// assert_eq!(gradients.local()?[4095], 2.0);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`Group::call`](crate::Group::call), [`local`](Self::local).
    #[track_caller]
    pub fn two_shot_all_reduce(&self, op: ReduceOp) -> Result<()> {
        let mut window = self.local()?;
        let (dtype, output) = (T::DTYPE, T::target(&mut window));
        self.group.call_in_windows(&Call::AllReduce { dtype, op, input: output.into(), output })
    }

    /// Gives every rank the combination of all ranks' part for it. Windows have equal parts in the
    /// order of ranks, and stay as they are.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let gradients = group.symmetric::<i64>(8 * group.world())?;
    /// gradients.local()?.fill(1);
    /// let mut shard = [0; 8];
    /// gradients.reduce_scatter(&mut shard, consort::ReduceOp::Sum)?;
    /// assert_eq!(shard, [group.world() as i64; 8]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`Group::call`](crate::Group::call), [`local`](Self::local).
    #[track_caller]
    pub fn reduce_scatter(&self, output: &mut [T], op: ReduceOp) -> Result<()> {
        let window = self.local()?;
        let (inputs, output) = (Inputs::Equal(T::source(&window)), T::target(output));
        self.group.call_in_windows(&Call::ReduceScatter { dtype: T::DTYPE, op, inputs, output })
    }

    /// Gives every rank the windows of all, one behind the other in the order of ranks.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let shard = group.symmetric::<u16>(4)?;
    /// shard.local()?.fill(9);
    /// let mut all = vec![0; 4 * group.world()];
    /// shard.all_gather(&mut all)?;
    /// assert!(all.iter().all(|&number| number == 9));
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`Group::call`](crate::Group::call), [`local`](Self::local).
    #[track_caller]
    pub fn all_gather(&self, output: &mut [T]) -> Result<()> {
        let window = self.local()?;
        let (input, outputs) = (T::source(&window), Outputs::Equal(T::target(output)));
        self.group.call_in_windows(&Call::AllGather { dtype: T::DTYPE, input, outputs })
    }

    /// Fills every window with the parts of all ranks. Windows have equal parts in the order of
    /// ranks; each rank has written its own.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let weights = group.symmetric::<f32>(4 * group.world())?;
    /// let mine = group.rank().index() * 4;
    /// weights.local()?[mine..mine + 4].fill(0.5);
    /// weights.all_gather_in_place()?;
    /// assert!(weights.local()?.iter().all(|&weight| weight == 0.5));
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`Group::call`](crate::Group::call), [`local`](Self::local).
    #[track_caller]
    pub fn all_gather_in_place(&self) -> Result<()> {
        let mut window = self.local()?;
        let outputs = Outputs::Equal(T::target(&mut window));
        let input = outputs.part(self.rank().index(), self.world()).into();
        self.group.call_in_windows(&Call::AllGather { dtype: T::DTYPE, input, outputs })
    }

    /// Gives every rank the parts of all windows that are for it. Windows and output have equal
    /// parts in the order of ranks.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let tokens = group.symmetric::<u32>(2 * group.world())?;
    /// tokens.local()?.fill(7 + group.rank().get());
    /// let mut received = vec![0; 2 * group.world()];
    /// tokens.all_to_all(&mut received)?;
    /// assert_eq!(received[..2], [7, 7]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`Group::call`](crate::Group::call), [`local`](Self::local).
    #[track_caller]
    pub fn all_to_all(&self, output: &mut [T]) -> Result<()> {
        let window = self.local()?;
        let inputs = Inputs::Equal(T::source(&window));
        let outputs = Outputs::Equal(T::target(output));
        let dtype = T::DTYPE;
        self.group.call_in_windows(&Call::AllToAll { dtype, uneven: false, inputs, outputs })
    }

    /// Gives what is in the root's window to every window.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let seed = group.symmetric::<u64>(1)?;
    /// seed.local()?[0] = 42 + u64::from(group.rank().get());
    /// seed.broadcast(0)?;
    /// assert_eq!(seed.local()?[0], 42);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`Group::call`](crate::Group::call), [`local`](Self::local).
    #[track_caller]
    pub fn broadcast(&self, root: impl Into<Rank>) -> Result<()> {
        let mut window = self.local()?;
        let (root, buffer) = (root.into(), T::target(&mut window));
        self.group.call_in_windows(&Call::Broadcast { dtype: T::DTYPE, root, buffer })
    }
}
