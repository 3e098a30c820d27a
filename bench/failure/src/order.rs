//! What the harness tells a rank to do. A line of text each, which programs in three languages read.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What a rank is to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Order {
    /// Make this call.
    Call(Call),
    /// Make it again and again, until it fails.
    Loop(Call),
    /// Begin it so many times, then wait for all.
    Pending { count: u32, call: Call },
    /// End the process with this code.
    Exit(i32),
    /// After so long, end the group from another thread. The next order comes at once.
    Abort(Duration),
    /// Form a new group of these ranks, and use it.
    Regroup(Vec<u32>),
}

/// A collective that every rank should call alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Call {
    /// Every element is `value` on this rank.
    AllReduce {
        dtype: Dtype,
        count: usize,
        op: Op,
        value: i32,
    },
    /// From rank 0.
    Broadcast {
        dtype: Dtype,
        count: usize,
        value: i32,
    },
    Barrier,
}

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dtype {
    F32,
    I32,
}

/// How elements are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Sum,
    Max,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(call) => write!(f, "call {call}"),
            Self::Loop(call) => write!(f, "loop {call}"),
            Self::Pending { count, call } => write!(f, "pending {count} {call}"),
            Self::Exit(code) => write!(f, "exit {code}"),
            Self::Abort(after) => write!(f, "abort {}", after.as_millis()),
            Self::Regroup(ranks) => {
                f.write_str("regroup")?;
                ranks.iter().try_for_each(|rank| write!(f, " {rank}"))
            }
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllReduce { dtype, count, op, value } => {
                write!(f, "all_reduce {dtype} {count} {op} {value}")
            }
            Self::Broadcast { dtype, count, value } => {
                write!(f, "broadcast {dtype} {count} 0 {value}")
            }
            Self::Barrier => f.write_str("barrier"),
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::I32 => "i32",
        })
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Max => "max",
        })
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "call" => Ok(Self::Call(rest.parse()?)),
            "loop" => Ok(Self::Loop(rest.parse()?)),
            "pending" => {
                let (count, call) = rest.split_once(' ').ok_or("pending what?")?;
                Ok(Self::Pending { count: number(count)?, call: call.parse()? })
            }
            "exit" => Ok(Self::Exit(number(rest)?)),
            "abort" => Ok(Self::Abort(Duration::from_millis(number(rest)?))),
            "regroup" => {
                let ranks: Result<_, _> = rest.split_ascii_whitespace().map(number).collect();
                Ok(Self::Regroup(ranks?))
            }
            _ => Err(format!("there is no order {line:?}")),
        }
    }
}

impl FromStr for Call {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match *text.split(' ').collect::<Vec<_>>().as_slice() {
            ["all_reduce", dtype, count, op, value] => Ok(Self::AllReduce {
                dtype: dtype.parse()?,
                count: number(count)?,
                op: op.parse()?,
                value: number(value)?,
            }),
            ["broadcast", dtype, count, "0", value] => Ok(Self::Broadcast {
                dtype: dtype.parse()?,
                count: number(count)?,
                value: number(value)?,
            }),
            ["barrier"] => Ok(Self::Barrier),
            _ => Err(format!("there is no call {text:?}")),
        }
    }
}

impl FromStr for Dtype {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "f32" => Ok(Self::F32),
            "i32" => Ok(Self::I32),
            _ => Err(format!("there is no type {text:?}")),
        }
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sum" => Ok(Self::Sum),
            "max" => Ok(Self::Max),
            _ => Err(format!("there is no reduction {text:?}")),
        }
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number that makes sense here"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn calls() -> impl Strategy<Value = Call> {
        let dtypes = || prop_oneof![Just(Dtype::F32), Just(Dtype::I32)];
        let ops = prop_oneof![Just(Op::Sum), Just(Op::Max)];
        prop_oneof![
            (dtypes(), any::<usize>(), ops, any::<i32>())
                .prop_map(|(dtype, count, op, value)| Call::AllReduce { dtype, count, op, value }),
            (dtypes(), any::<usize>(), any::<i32>())
                .prop_map(|(dtype, count, value)| Call::Broadcast { dtype, count, value }),
            Just(Call::Barrier),
        ]
    }

    fn orders() -> impl Strategy<Value = Order> {
        prop_oneof![
            calls().prop_map(Order::Call),
            calls().prop_map(Order::Loop),
            (any::<u32>(), calls()).prop_map(|(count, call)| Order::Pending { count, call }),
            any::<i32>().prop_map(Order::Exit),
            any::<u32>().prop_map(|ms| Order::Abort(Duration::from_millis(ms.into()))),
            prop::collection::vec(any::<u32>(), 0..5).prop_map(Order::Regroup),
        ]
    }

    proptest! {
        #[test]
        fn an_order_is_read_as_it_is_written(order in orders()) {
            prop_assert_eq!(order.to_string().parse(), Ok(order));
        }

        #[test]
        fn any_line_is_an_order_or_an_error(line in "[a-z0-9 -]{0,40}") {
            let _ = line.parse::<Order>();
        }
    }
}
