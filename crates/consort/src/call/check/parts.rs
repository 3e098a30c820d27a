//! A part for each rank, whether they are read or written.

use std::fmt;

use consort_sys::view::{Source, Target};

use crate::call::{Inputs, Outputs};

/// A part for each rank. Those of one slice are equal; it is called `input` or `output`.
#[derive(Clone, Copy)]
pub(super) enum Parts<'a> {
    Input(Source<'a>),
    Output(Target<'a>),
    Inputs(&'a [Source<'a>]),
    Outputs(&'a [Target<'a>]),
}

impl<'a> Parts<'a> {
    /// What users call all of them.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Input(_) => "input",
            Self::Output(_) => "output",
            Self::Inputs(_) => "inputs",
            Self::Outputs(_) => "outputs",
        }
    }

    /// What users call a rank's.
    pub(super) fn name_of(self, rank: usize) -> Name {
        Name { all: self.name(), is_one: self.in_one().is_some(), rank }
    }

    /// All of them, if they lie one behind the other.
    pub(super) fn in_one(self) -> Option<Source<'a>> {
        match self {
            Self::Input(all) => Some(all),
            Self::Output(all) => Some(all.into()),
            Self::Inputs(_) | Self::Outputs(_) => None,
        }
    }

    /// How many there are in a group of `world` ranks.
    pub(super) fn count(self, world: usize) -> usize {
        match self {
            Self::Input(_) | Self::Output(_) => world,
            Self::Inputs(parts) => parts.len(),
            Self::Outputs(parts) => parts.len(),
        }
    }

    /// The part of one of `world` ranks.
    pub(super) fn part(self, rank: usize, world: usize) -> Source<'a> {
        match self {
            Self::Input(all) => Inputs::Equal(all).part(rank, world),
            Self::Output(all) => Outputs::Equal(all).part(rank, world).into(),
            Self::Inputs(parts) => parts[rank],
            Self::Outputs(parts) => parts[rank].into(),
        }
    }
}

/// What users call a rank's part. Written only when there is something to say about it.
#[derive(Clone, Copy)]
pub(super) struct Name {
    all: &'static str,
    is_one: bool,
    rank: usize,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { all, rank, .. } = self;
        match self.is_one {
            true => write!(f, "rank {rank}'s part of {all}"),
            false => write!(f, "{all}[{rank}]"),
        }
    }
}

impl<'a> From<Inputs<'a>> for Parts<'a> {
    fn from(inputs: Inputs<'a>) -> Self {
        match inputs {
            Inputs::Equal(all) => Self::Input(all),
            Inputs::List(parts) => Self::Inputs(parts),
        }
    }
}

impl<'a> From<Outputs<'a>> for Parts<'a> {
    fn from(outputs: Outputs<'a>) -> Self {
        match outputs {
            Outputs::Equal(all) => Self::Output(all),
            Outputs::List(parts) => Self::Outputs(parts),
        }
    }
}
