//! The ways to combine, for any kind of number that can be combined so.

use super::number::{Bits, Mean, Number, Ordered, Real};

/// A way to make one of many: what to do with the first, with each further one, and at last.
pub(super) trait Combine<W>: From<Scale> + Copy {
    fn first(self, one: W) -> W {
        one
    }

    fn join(self, sum: W, one: W) -> W;

    fn last(self, sum: W) -> W {
        sum
    }
}

/// The numbers that some ways depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) factor: f64,
    /// How many are averaged.
    pub(super) divisor: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Sum;

impl<W: Number> Combine<W> for Sum {
    #[inline(always)]
    fn join(self, sum: W, one: W) -> W {
        sum.add(one)
    }

    #[inline(always)]
    fn last(self, sum: W) -> W {
        sum.canonical()
    }
}

#[derive(Clone, Copy)]
pub(super) struct Avg {
    divisor: usize,
}

impl<W: Mean> Combine<W> for Avg {
    #[inline(always)]
    fn join(self, sum: W, one: W) -> W {
        sum.add(one)
    }

    #[inline(always)]
    fn last(self, sum: W) -> W {
        sum.over(self.divisor).canonical()
    }
}

/// [`Avg`] in a world of 2, 4, 8 and so on, where a multiplication gives the same and sooner.
#[derive(Clone, Copy)]
pub(super) struct ShiftedAvg {
    share: f64,
}

impl<W: Real> Combine<W> for ShiftedAvg {
    #[inline(always)]
    fn join(self, sum: W, one: W) -> W {
        sum.add(one)
    }

    #[inline(always)]
    fn last(self, sum: W) -> W {
        sum.times(self.share).canonical()
    }
}

#[derive(Clone, Copy)]
pub(super) struct PremulSum {
    factor: f64,
}

impl<W: Real> Combine<W> for PremulSum {
    #[inline(always)]
    fn first(self, one: W) -> W {
        one.times(self.factor)
    }

    #[inline(always)]
    fn join(self, sum: W, one: W) -> W {
        sum.add(one.times(self.factor))
    }

    #[inline(always)]
    fn last(self, sum: W) -> W {
        sum.canonical()
    }
}

#[derive(Clone, Copy)]
pub(super) struct Product;

impl<W: Number> Combine<W> for Product {
    #[inline(always)]
    fn join(self, product: W, one: W) -> W {
        product.mul(one)
    }

    #[inline(always)]
    fn last(self, product: W) -> W {
        product.canonical()
    }
}

#[derive(Clone, Copy)]
pub(super) struct Min;

impl<W: Ordered> Combine<W> for Min {
    #[inline(always)]
    fn join(self, least: W, one: W) -> W {
        least.lower(one)
    }

    #[inline(always)]
    fn last(self, least: W) -> W {
        least.canonical()
    }
}

#[derive(Clone, Copy)]
pub(super) struct Max;

impl<W: Ordered> Combine<W> for Max {
    #[inline(always)]
    fn join(self, greatest: W, one: W) -> W {
        greatest.higher(one)
    }

    #[inline(always)]
    fn last(self, greatest: W) -> W {
        greatest.canonical()
    }
}

#[derive(Clone, Copy)]
pub(super) struct And;

impl<W: Bits> Combine<W> for And {
    #[inline(always)]
    fn join(self, bits: W, one: W) -> W {
        bits.and(one)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Or;

impl<W: Bits> Combine<W> for Or {
    #[inline(always)]
    fn join(self, bits: W, one: W) -> W {
        bits.or(one)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Xor;

impl<W: Bits> Combine<W> for Xor {
    #[inline(always)]
    fn join(self, bits: W, one: W) -> W {
        bits.xor(one)
    }
}

impl From<Scale> for Avg {
    fn from(Scale { divisor, .. }: Scale) -> Self {
        Self { divisor }
    }
}

impl From<Scale> for ShiftedAvg {
    fn from(Scale { divisor, .. }: Scale) -> Self {
        Self { share: 1.0 / divisor as f64 }
    }
}

impl From<Scale> for PremulSum {
    fn from(Scale { factor, .. }: Scale) -> Self {
        Self { factor }
    }
}

macro_rules! unscaled {
    ($($op:ident)*) => {$(
        impl From<Scale> for $op {
            fn from(_: Scale) -> Self {
                Self
            }
        }
    )*};
}

unscaled!(Sum Product Min Max And Or Xor);
