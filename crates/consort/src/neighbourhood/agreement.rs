//! The one promise of this crate that no compiler checks: that it uses what ranks share as they have
//! agreed.
//!
//! - **Places do not overlap.** They are taken from the arena's own space, and each rank tells the others
//!   only places that it has taken: a board, a ground and a post for each group, a window and its control
//!   block for each allocation of symmetric memory. What is told is checked to lie in the arena of
//!   whoever tells it, and a place is given back only when every rank has left the group or the memory,
//!   or its process has ended.
//! - **Bytes are viewed in turn.** The board's steps say who may read and who may write a ground's
//!   buffers when (`board/README.md`), the rings' words who may in a post (`ring/README.md`). All of a
//!   group's steps are taken by the one thread that holds its lane, and its messages are moved under the
//!   lock of its post.
//! - **Operands are viewed in the call they were lent to**, and written by their own rank only.
#![allow(unsafe_code, reason = "it can only be promised")]

use consort_sys::arena::Agreement;

/// That promise.
// SAFETY: as the top of this file says, point by point.
pub(crate) const AGREEMENT: Agreement = unsafe { Agreement::keep() };
