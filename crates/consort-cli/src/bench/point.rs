//! One question to whoever measures: an operation, a size, and for how long.

use std::fmt;
use std::str::FromStr;

use consort_sys::dtype::{Dtype, ReduceOp};

use super::op::Op;

/// What to measure. As text it is the line that measuring processes read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    /// The operation.
    pub(crate) op: Op,
    /// What the bytes mean.
    pub(crate) dtype: Dtype,
    /// How to combine them. Said for every operation, used by those that combine.
    pub(crate) reduce: ReduceOp,
    /// How many bytes, as nccl-tests counts them for this operation.
    pub(crate) bytes: usize,
    /// How long to measure, warm-up not included.
    pub(crate) seconds: f64,
    /// Whether the result goes where the input was, if the operation has both forms.
    pub(crate) in_place: bool,
}

impl Point {
    /// The same with a number of bytes that `ranks` ranks can share out in whole elements: the next
    /// smaller one, or else the smallest there is.
    pub(crate) fn rounded(self, ranks: usize) -> Self {
        let shares = if self.op.is_shared_out() { ranks } else { 1 };
        let unit = shares * self.dtype.size();
        let bytes = if self.op == Op::Barrier { 0 } else { (self.bytes / unit).max(1) * unit };
        Self { bytes, ..self }
    }

    /// Whether the result goes where the input was, and could go elsewhere.
    pub(crate) fn is_in_place_by_choice(&self) -> bool {
        self.in_place && self.op.is_in_place(true) && !self.op.is_in_place(false)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, dtype, reduce, bytes, seconds, in_place } = self;
        let place = if *in_place { "in" } else { "out" };
        write!(f, "{op} {dtype} {reduce} {bytes} {seconds} {place}")
    }
}

impl FromStr for Point {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [op, dtype, reduce, bytes, seconds, place] = words[..] else {
            return Err("a point is OP DTYPE REDUCE BYTES SECONDS in|out".to_owned());
        };
        Ok(Self {
            op: op.parse()?,
            dtype: dtype.parse().map_err(in_words)?,
            reduce: reduce.parse().map_err(in_words)?,
            bytes: bytes.parse().map_err(in_words)?,
            seconds: seconds.parse().map_err(in_words)?,
            in_place: place == "in",
        })
    }
}

fn in_words(error: impl fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn point(op: Op, bytes: usize) -> Point {
        let (dtype, reduce) = (Dtype::F32, ReduceOp::Sum);
        Point { op, dtype, reduce, bytes, seconds: 0.25, in_place: false }
    }

    #[test]
    fn a_point_is_a_line_that_can_be_read_again() {
        let point = Point { in_place: true, ..point(Op::AllReduce, 1024) };
        assert_eq!(point.to_string(), "all_reduce f32 sum 1024 0.25 in");
        assert_eq!(point.to_string().parse(), Ok(point));
    }

    #[test]
    fn a_line_that_is_no_point_is_refused_with_the_reason() {
        for (line, part) in [
            ("", "OP DTYPE"),
            ("all_reduce f32 sum 1024 0.25", "OP DTYPE"),
            ("all f32 sum 8 1 out", "no operation"),
            ("barrier f7 sum 8 1 out", "no dtype"),
            ("barrier f32 total 8 1 out", "no reduce operation"),
            ("barrier f32 sum eight 1 out", "invalid digit"),
        ] {
            let error = line.parse::<Point>().unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn bytes_are_rounded_to_what_ranks_can_share_out() {
        let rounded = |op, bytes, ranks| point(op, bytes).rounded(ranks).bytes;
        assert_eq!(rounded(Op::AllReduce, 1027, 3), 1024);
        assert_eq!(rounded(Op::AllReduce, 0, 3), 4);
        assert_eq!(rounded(Op::AllGather, 1027, 3), 1020);
        assert_eq!(rounded(Op::AllToAll, 8, 8), 32);
        assert_eq!(rounded(Op::Barrier, 1024, 8), 0);
    }
}
