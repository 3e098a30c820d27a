//! The library as programs of other languages have it: by its headers and its shared object.

#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod compiled;
mod headers;
mod nvidia;
mod programs;
