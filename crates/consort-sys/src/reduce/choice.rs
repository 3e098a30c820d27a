//! Which loop combines which dtype in which way, on which processor.

use half::{bf16, f16};

use super::blocks::{Run, plain};
use super::combine::{And, Avg, Combine, Max, Min, Or, PremulSum, Product, ShiftedAvg, Sum, Xor};
use super::lane::{Lane, Summand, Truth};
use super::number::{Mean, Number, Ordered, Real};
#[cfg(target_arch = "x86_64")]
use super::x86;
use crate::dtype::{Complex32, Complex64, Dtype, F8E4m3, F8E5m2, ReduceOp};

/// The instructions that a processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// What every processor of the architecture has.
    Plain,
    /// AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Level {
    /// The best that this processor has.
    pub(super) fn here() -> Self {
        #[cfg(target_arch = "x86_64")]
        if x86::is_here() {
            return Self::Avx2;
        }
        Self::Plain
    }
}

/// The loop for a dtype and an operation, or `None` where the two have no meaning together.
pub(super) fn run(level: Level, dtype: Dtype, op: ReduceOp, world: usize) -> Option<Run> {
    match dtype {
        Dtype::F32 => real::<f32>(level, op, world),
        Dtype::F64 => real::<f64>(level, op, world),
        Dtype::F16 => real::<f16>(level, op, world),
        Dtype::Bf16 => real::<bf16>(level, op, world),
        Dtype::F8E4m3 => real::<F8E4m3>(level, op, world),
        Dtype::F8E5m2 => real::<F8E5m2>(level, op, world),
        Dtype::I8 => integer::<i8>(level, op),
        Dtype::I16 => integer::<i16>(level, op),
        Dtype::I32 => integer::<i32>(level, op),
        Dtype::I64 => integer::<i64>(level, op),
        Dtype::U8 => integer::<u8>(level, op),
        Dtype::U16 => integer::<u16>(level, op),
        Dtype::U32 => integer::<u32>(level, op),
        Dtype::U64 => integer::<u64>(level, op),
        Dtype::Bool => truth(level, op),
        Dtype::C64 => complex::<Complex32, f32>(level, op, world),
        Dtype::C128 => complex::<Complex64, f64>(level, op, world),
    }
}

fn real<L>(level: Level, op: ReduceOp, world: usize) -> Option<Run>
where
    L: Packed<Wide: Real, Register: Lane<Wide: Real>>,
{
    Some(match op {
        ReduceOp::Sum => packed::<L, Sum>(level),
        ReduceOp::Avg if world.is_power_of_two() => packed::<L, ShiftedAvg>(level),
        ReduceOp::Avg => packed::<L, Avg>(level),
        ReduceOp::Product => packed::<L, Product>(level),
        ReduceOp::Min => packed::<L, Min>(level),
        ReduceOp::Max => packed::<L, Max>(level),
        ReduceOp::PremulSum(_) => packed::<L, PremulSum>(level),
        ReduceOp::BitAnd | ReduceOp::BitOr | ReduceOp::BitXor => return None,
    })
}

fn integer<L>(level: Level, op: ReduceOp) -> Option<Run>
where
    L: Packed<Wide: Ordered, Register: Lane<Wide: Ordered>>,
    Summand<L>: Lane<Wide: Mean>,
{
    Some(match op {
        ReduceOp::Sum => packed::<L, Sum>(level),
        ReduceOp::Avg => single::<Summand<L>, Avg>(level),
        ReduceOp::Product => packed::<L, Product>(level),
        ReduceOp::Min => packed::<L, Min>(level),
        ReduceOp::Max => packed::<L, Max>(level),
        ReduceOp::BitAnd => packed::<u8, And>(level),
        ReduceOp::BitOr => packed::<u8, Or>(level),
        ReduceOp::BitXor => packed::<u8, Xor>(level),
        ReduceOp::PremulSum(_) => return None,
    })
}

fn truth(level: Level, op: ReduceOp) -> Option<Run> {
    Some(match op {
        ReduceOp::Product | ReduceOp::Min | ReduceOp::BitAnd => packed::<Truth, And>(level),
        ReduceOp::Sum | ReduceOp::Max | ReduceOp::BitOr => packed::<Truth, Or>(level),
        ReduceOp::BitXor => packed::<Truth, Xor>(level),
        ReduceOp::Avg | ReduceOp::PremulSum(_) => return None,
    })
}

/// A complex number is added, and multiplied by a real one, part by part.
fn complex<L, P>(level: Level, op: ReduceOp, world: usize) -> Option<Run>
where
    L: Lane<Wide: Number>,
    P: Packed<Wide: Real, Register: Lane<Wide: Real>>,
{
    match op {
        ReduceOp::Sum | ReduceOp::Avg | ReduceOp::PremulSum(_) => real::<P>(level, op, world),
        ReduceOp::Product => Some(single::<L, Product>(level)),
        _ => None,
    }
}

/// A loop over registers where there are any.
fn packed<L: Packed, C>(level: Level) -> Run
where
    C: Combine<L::Wide> + Combine<<L::Register as Lane>::Wide>,
{
    match level {
        Level::Plain => plain::<L, C>,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => x86::registers::<L::Register, C>,
    }
}

/// A loop over numbers, for the compiler to pack.
fn single<L: Lane, C: Combine<L::Wide>>(level: Level) -> Run {
    match level {
        Level::Plain => plain::<L, C>,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => x86::numbers::<L, C>,
    }
}

/// A number that there are registers for.
trait Packed: Lane {
    type Register: Lane;
}

#[cfg(not(target_arch = "x86_64"))]
impl<L: Lane> Packed for L {
    type Register = L;
}

#[cfg(target_arch = "x86_64")]
macro_rules! packed {
    ($($number:ty: $register:ident),* $(,)?) => {$(
        impl Packed for $number {
            type Register = x86::$register;
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
packed! {
    f32: F32x8, f64: F64x4, f16: F16x16, bf16: Bf16x16, F8E4m3: E4m3x16, F8E5m2: E5m2x16,
    i8: I8x32, i16: I16x16, i32: I32x8, i64: I64x4,
    u8: U8x32, u16: U16x16, u32: U32x8, u64: U64x4, Truth: Truths,
}
