//! The one promise of this crate that no compiler checks.
#![allow(unsafe_code, reason = "it can only be promised")]

use consort_sys::arena::Agreement;

/// That this crate uses what ranks share as they have agreed.
// SAFETY: places are taken from the arena's own space, so none overlaps another, and each rank tells the
// others only places that it has taken: a board, a ground and a post for each group, a window and its
// control block for each allocation of symmetric memory. What is told is checked to lie in the arena of
// whoever tells it. A place is given back only when every rank has left the group or the memory. The
// board's steps say who may read and who may write a ground's buffers when (`board/README.md`), the
// rings' words who may in a post (`ring/README.md`); operands are viewed in the call they were lent to.
// All of a group's steps are taken by the one thread that holds its lane, and its messages are moved
// under the lock of its post.
pub(crate) const AGREEMENT: Agreement = unsafe { Agreement::keep() };
