//! How ranks say that they use a window no more, and how its owner knows that nobody does: the
//! protocol. The README beside this file has its invariants; the model is in `models.rs`.

use crate::word::Word;

/// Says that the rank whose word this is uses the window no more. It must not look at the window's
/// block again: once all have left, its owner gives it away. That also is why every rank says so in
/// everyone's block, not just in its own.
pub(crate) fn leave<W: Word>(left: &W) {
    // Pairs with the reading in `is_deserted`: whatever the rank did with the window is done before
    // it is given away.
    left.write(1);
}

/// Whether nobody uses the window any more: each rank, whose words these are in turn, has left, or
/// `has_ended` says that its process is no more. A rank that left before it died is one rank all the
/// same, and so is one that died when it had left some of the blocks.
pub(crate) fn is_deserted<'a, W: Word + 'a>(
    left: impl IntoIterator<Item = &'a W>,
    mut has_ended: impl FnMut(usize) -> bool,
) -> bool {
    left.into_iter().enumerate().all(|(rank, left)| left.read() != 0 || has_ended(rank))
}
