//! Rust types that have a dtype.

use std::fmt::Debug;

use bytemuck::{NoUninit, Zeroable};
use half::{bf16, f16};

use super::{Complex32, Complex64, Dtype, F8E4m3, F8E5m2};
use crate::view::{Source, Target};

/// A Rust type that has a [`Dtype`]: what the slices given to a collective are made of.
///
/// Every bit pattern is a value of every element type except `bool`. A [`Target`] made from a slice
/// of `bool` remembers that: whatever is copied to it, no byte but 0 and 1 arrives.
pub trait Element:
    NoUninit + Zeroable + Default + PartialEq + Debug + Send + Sync + sealed::Sealed
{
    /// Its dtype.
    const DTYPE: Dtype;

    /// The bytes of some elements.
    fn bytes(elements: &[Self]) -> &[u8] {
        bytemuck::must_cast_slice(elements)
    }

    /// Some elements to read from.
    fn source(elements: &[Self]) -> Source<'_> {
        Self::bytes(elements).into()
    }

    /// Some elements to write to.
    fn target(elements: &mut [Self]) -> Target<'_>;
}

#[expect(unnameable_types, reason = "so that no other crate can have elements of its own")]
mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($element:ty: $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $element {}

        impl Element for $element {
            const DTYPE: Dtype = Dtype::$dtype;

            fn target(elements: &mut [Self]) -> Target<'_> {
                bytemuck::must_cast_slice_mut::<_, u8>(elements).into()
            }
        }
    )*};
}

elements! {
    f32: F32, f64: F64, f16: F16, bf16: Bf16, F8E4m3: F8E4m3, F8E5m2: F8E5m2,
    i8: I8, i16: I16, i32: I32, i64: I64, u8: U8, u16: U16, u32: U32, u64: U64,
    Complex32: C64, Complex64: C128,
}

impl sealed::Sealed for bool {}

impl Element for bool {
    const DTYPE: Dtype = Dtype::Bool;

    fn target(elements: &mut [Self]) -> Target<'_> {
        elements.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks_like_its_dtype<E: Element>() {
        assert_eq!(size_of::<E>(), E::DTYPE.size(), "{}", E::DTYPE);
        assert_eq!(align_of::<E>(), E::DTYPE.align(), "{}", E::DTYPE);
        let mut two = [E::default(); 2];
        assert_eq!(E::bytes(&two).len(), 2 * E::DTYPE.size());
        assert_eq!(E::target(&mut two).len(), 2 * E::DTYPE.size());
    }

    #[test]
    fn every_element_is_as_large_as_its_dtype_says() {
        looks_like_its_dtype::<f32>();
        looks_like_its_dtype::<f64>();
        looks_like_its_dtype::<f16>();
        looks_like_its_dtype::<bf16>();
        looks_like_its_dtype::<F8E4m3>();
        looks_like_its_dtype::<F8E5m2>();
        looks_like_its_dtype::<i8>();
        looks_like_its_dtype::<i16>();
        looks_like_its_dtype::<i32>();
        looks_like_its_dtype::<i64>();
        looks_like_its_dtype::<u8>();
        looks_like_its_dtype::<u16>();
        looks_like_its_dtype::<u32>();
        looks_like_its_dtype::<u64>();
        looks_like_its_dtype::<bool>();
        looks_like_its_dtype::<Complex32>();
        looks_like_its_dtype::<Complex64>();
    }

    #[test]
    fn no_byte_but_0_and_1_arrives_in_a_slice_of_bool() {
        let mut truths = [false; 300];
        let bytes: Vec<u8> = (0..300).map(|i| (i % 256) as u8).collect();
        bool::target(&mut truths).copy_from((&bytes[..]).into());
        assert!(
            bool::bytes(&truths).iter().zip(&bytes).all(|(to, from)| *to == u8::from(*from != 0))
        );

        bool::target(&mut truths).slice(1..2).fill(0xff);
        assert_eq!(&bool::bytes(&truths)[..3], [0, 1, 1]);
    }
}
