//! Complex numbers, as they lie in memory.

use bytemuck::{Pod, Zeroable};

/// A complex number of two `f32`: dtype [`C64`](super::Dtype::C64).
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Complex32 {
    /// The real part.
    pub re: f32,
    /// The imaginary part.
    pub im: f32,
}

impl Complex32 {
    /// The number `re` + `im`·i.
    pub const fn new(re: f32, im: f32) -> Self {
        Self { re, im }
    }
}

/// A complex number of two `f64`: dtype [`C128`](super::Dtype::C128).
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Complex64 {
    /// The real part.
    pub re: f64,
    /// The imaginary part.
    pub im: f64,
}

impl Complex64 {
    /// The number `re` + `im`·i.
    pub const fn new(re: f64, im: f64) -> Self {
        Self { re, im }
    }
}
