//! Numbers of every kind, and what becomes of them when they are combined.

use consort::{Complex32, Complex64, Element, F8E4m3, F8E5m2, ReduceOp, bf16, f16};

/// A kind of numbers.
pub(crate) trait Number: Element {
    /// Any bits, also those that are no ordinary number.
    fn any(random: u64) -> Self;
    /// A number that can be combined with others in any order.
    fn plain(random: u64) -> Self;
    /// How it can be combined.
    fn operations() -> Vec<ReduceOp>;
    fn combine(op: ReduceOp, all: &[Self]) -> Self;
}

/// Calls a function for every kind of numbers.
macro_rules! for_every_kind {
    ($do:ident $args:tt) => {
        for_every_kind!(@ $do $args
            f32 f64 consort::f16 consort::bf16 consort::F8E4m3 consort::F8E5m2 i8 i16 i32 i64 u8 u16
            u32 u64 bool consort::Complex32 consort::Complex64)
    };
    (@ $do:ident $args:tt $($kind:ty)*) => {$( $do::<$kind> $args; )*};
}
pub(crate) use for_every_kind;

/// Mixes numbers up.
pub(crate) fn scramble(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl Number for $integer {
            fn any(random: u64) -> Self {
                random as $integer
            }

            fn plain(random: u64) -> Self {
                random as $integer
            }

            fn operations() -> Vec<ReduceOp> {
                ReduceOp::ALL[..8].to_vec()
            }

            fn combine(op: ReduceOp, all: &[Self]) -> Self {
                let all = all.iter().map(|&number| i128::from(number));
                let count = all.len() as i128;
                (match op {
                    ReduceOp::Sum => all.sum::<i128>(),
                    ReduceOp::Avg => all.sum::<i128>() / count,
                    ReduceOp::Product => all.fold(1, i128::wrapping_mul),
                    ReduceOp::Min => all.min().unwrap(),
                    ReduceOp::Max => all.max().unwrap(),
                    ReduceOp::BitAnd => all.fold(-1, |bits, number| bits & number),
                    ReduceOp::BitOr => all.fold(0, |bits, number| bits | number),
                    ReduceOp::BitXor => all.fold(0, |bits, number| bits ^ number),
                    ReduceOp::PremulSum(_) => unreachable!("integers have no factor"),
                }) as $integer
            }
        }
    )*};
}

integers! { i8 i16 i32 i64 u8 u16 u32 u64 }

impl Number for bool {
    fn any(random: u64) -> Self {
        random.is_multiple_of(2)
    }

    fn plain(random: u64) -> Self {
        !random.is_multiple_of(3)
    }

    fn operations() -> Vec<ReduceOp> {
        use ReduceOp::{BitAnd, BitOr, BitXor, Max, Min, Product, Sum};
        vec![Sum, Product, Min, Max, BitAnd, BitOr, BitXor]
    }

    fn combine(op: ReduceOp, all: &[Self]) -> Self {
        match op {
            ReduceOp::Sum | ReduceOp::Max | ReduceOp::BitOr => all.contains(&true),
            ReduceOp::Product | ReduceOp::Min | ReduceOp::BitAnd => !all.contains(&false),
            _ => all.iter().filter(|&&one| one).count() % 2 == 1,
        }
    }
}

/// Numbers so small that nothing is rounded but averages, in every kind and in whatever order.
macro_rules! floats {
    ($($float:ty as $wide:ident: $from_bits:expr, $narrow:expr, $widen:expr;)*) => {$(
        impl Number for $float {
            fn any(random: u64) -> Self {
                $from_bits(random as _)
            }

            fn plain(random: u64) -> Self {
                $narrow((random % 5) as $wide - 2.0)
            }

            fn operations() -> Vec<ReduceOp> {
                use ReduceOp::{Avg, Max, Min, PremulSum, Product, Sum};
                vec![Sum, Avg, Product, Min, Max, PremulSum(0.5)]
            }

            fn combine(op: ReduceOp, all: &[Self]) -> Self {
                $narrow($wide::fold(op, all.iter().map(|&number| $widen(number)).collect()))
            }
        }
    )*};
}

floats! {
    f32 as f32: f32::from_bits, |it: f32| it, |it: f32| it;
    f64 as f64: f64::from_bits, |it: f64| it, |it: f64| it;
    f16 as f32: f16::from_bits, f16::from_f32, f16::to_f32;
    bf16 as f32: bf16::from_bits, bf16::from_f32, bf16::to_f32;
    F8E4m3 as f32: F8E4m3::from_bits, F8E4m3::from_f32, F8E4m3::to_f32;
    F8E5m2 as f32: F8E5m2::from_bits, F8E5m2::from_f32, F8E5m2::to_f32;
}

macro_rules! complex {
    ($($complex:ident of $float:ident)*) => {$(
        impl Number for $complex {
            fn any(random: u64) -> Self {
                Self::new($float::any(random), $float::any(scramble(random)))
            }

            fn plain(random: u64) -> Self {
                // No product of some of them has a zero whose sign depends on the order.
                Self::new((random % 2) as $float + 2.0, 1.0)
            }

            fn operations() -> Vec<ReduceOp> {
                vec![ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Product, ReduceOp::PremulSum(0.5)]
            }

            fn combine(op: ReduceOp, all: &[Self]) -> Self {
                if op == ReduceOp::Product {
                    let product = all.iter().copied().reduce(|one, other| {
                        let re = one.re * other.re - one.im * other.im;
                        Self::new(re, one.re * other.im + one.im * other.re)
                    });
                    return product.unwrap();
                }
                let re = $float::fold(op, all.iter().map(|it| it.re).collect());
                Self::new(re, $float::fold(op, all.iter().map(|it| it.im).collect()))
            }
        }
    )*};
}

complex! { Complex32 of f32 Complex64 of f64 }

/// Combines wide numbers.
trait Fold: Sized {
    fn fold(op: ReduceOp, all: Vec<Self>) -> Self;
}

macro_rules! fold {
    ($($float:ident)*) => {$(
        impl Fold for $float {
            fn fold(op: ReduceOp, all: Vec<Self>) -> Self {
                let count = all.len() as $float;
                let all = all.into_iter();
                match op {
                    ReduceOp::Sum => all.reduce(|sum, it| sum + it).unwrap(),
                    ReduceOp::Avg => all.reduce(|sum, it| sum + it).unwrap() / count,
                    ReduceOp::Product => all.reduce(|product, it| product * it).unwrap(),
                    ReduceOp::Min => all.reduce($float::min).unwrap(),
                    ReduceOp::Max => all.reduce($float::max).unwrap(),
                    ReduceOp::PremulSum(factor) => {
                        all.map(|it| it * factor as $float).reduce(|sum, it| sum + it).unwrap()
                    }
                    _ => unreachable!("such numbers have no {op}"),
                }
            }
        }
    )*};
}

fold! { f32 f64 }
