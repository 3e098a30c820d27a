//! The operations that can be measured.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An operation, with what nccl-tests means by its bytes and its bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    /// Everyone gets the combination of everyone's.
    AllReduce,
    /// Everyone gets rank 0's.
    Broadcast,
    /// Rank 0 gets the combination of everyone's.
    Reduce,
    /// Everyone gets everyone's share.
    AllGather,
    /// Everyone gets its share of the combination.
    ReduceScatter,
    /// Rank 0 gets everyone's share.
    Gather,
    /// Everyone gets its share of rank 0's.
    Scatter,
    /// Everyone gets a share from everyone.
    AllToAll,
    /// Everyone sends to the next rank and receives from the one before.
    SendRecv,
    /// Nobody leaves before everyone has come.
    Barrier,
}

impl Op {
    /// All of them.
    pub(crate) const ALL: [Self; 10] = [
        Self::AllReduce,
        Self::Broadcast,
        Self::Reduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::Gather,
        Self::Scatter,
        Self::AllToAll,
        Self::SendRecv,
        Self::Barrier,
    ];

    /// What it is called on the command line and in records.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::AllToAll => "all_to_all",
            Self::SendRecv => "send_recv",
            Self::Barrier => "barrier",
        }
    }

    /// Whether its bytes are those of all ranks' shares together: they have to be a multiple of the
    /// number of ranks.
    pub(crate) const fn is_shared_out(self) -> bool {
        matches!(
            self,
            Self::AllGather | Self::ReduceScatter | Self::Gather | Self::Scatter | Self::AllToAll
        )
    }

    /// Whether its result goes where its input was, if that was asked for: some have no choice.
    pub(crate) const fn is_in_place(self, asked: bool) -> bool {
        match self {
            Self::Broadcast => true,
            Self::SendRecv | Self::Barrier => false,
            _ => asked,
        }
    }

    /// Whether it combines numbers.
    pub(crate) const fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::Reduce | Self::ReduceScatter)
    }

    /// Bus bandwidth, as a multiple of bytes per time: what the slowest link has to carry, so that
    /// figures of different numbers of ranks can be compared with what the hardware could do.
    pub(crate) fn bus_factor(self, ranks: usize) -> f64 {
        let others = ranks.saturating_sub(1) as f64 / ranks as f64;
        match self {
            Self::AllReduce => 2.0 * others,
            _ if self.is_shared_out() => others,
            _ => 1.0,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|op| op.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no operation {text:?}: choose some of {names}, or all")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_by_its_name_everywhere() {
        for op in Op::ALL {
            assert_eq!(op.name().parse(), Ok(op));
            assert_eq!(serde_json::to_value(op).unwrap(), op.name());
        }
        assert!("allreduce".parse::<Op>().is_err_and(|error| error.contains("all_reduce, ")));
    }

    #[test]
    fn bus_bandwidth_is_that_of_nccl_tests() {
        let factors = |ranks| Op::ALL.map(|op| op.bus_factor(ranks));
        assert_eq!(factors(2), [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0]);
        assert_eq!(factors(4), [1.5, 1.0, 1.0, 0.75, 0.75, 0.75, 0.75, 0.75, 1.0, 1.0]);
        assert_eq!(Op::AllReduce.bus_factor(1), 0.0);
    }
}
