//! Carries out calls between ranks that have links to each other, and never waits.
//!
//! A call becomes a [`Script`](script::Script): rounds of copies, local reductions and messages, made of the
//! programs of `consort-plan` and of reductions between them ([recipe]). Data that is too long to
//! travel at once is cut into *segments* of every chunk, and each segment runs the whole script, on
//! one of a few *tracks* ([track]), so that one segment is combined while another is under way.
//!
//! ```text
//!   Call ──▶ choice ──▶ recipe ──▶ script ─┐      one for each operation, algorithm and root; kept
//!              │                           ├─▶ Run ──▶ tracks ──▶ Links
//!              └──▶ segments, tracks ──────┘      ▲
//!   memory: where In, Out and Scratch are ────────┘
//! ```
//!
//! **Exactness.** Operands meet on one rank and are combined there by one kernel, in the order of ranks:
//! results have the same bits as if all ranks shared their memory. Values are combined on the way only
//! where that saves many messages: of medium size between four ranks and more, between very many, or
//! where the caller names an algorithm; and only where combining two by two rounds no more often.
//!
//! **Agreement.** What a rank sends, and what it expects, follows from the call and the world alone:
//! the choice looks at nothing that other ranks cannot know.

mod cache;
mod choice;
mod links;
mod memory;
mod parts;
mod place;
mod plan;
mod recipe;
mod run;
mod script;
mod segments;
mod streams;
#[cfg(test)]
mod tests;
mod track;

pub(crate) use self::cache::Cache;
pub(crate) use self::choice::{Choices, is_small};
pub(crate) use self::links::{Label, Links, Moved};
pub(crate) use self::run::{Progress, Run};
