//! The exported functions, by subject.
//!
//! Each is there a second time with a `p` before its name, as in NCCL: a tool that puts its own function in the
//! place of one calls the other.

/// Exports functions, each under two names. What a body gives is what the function says.
macro_rules! exports {
    ($($(#[$meta:meta])* fn $name:ident, $alias:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $type),*) -> $crate::Status {
            $crate::failure::guard(stringify!($name), move || $body)
        }

        #[doc(hidden)]
        #[unsafe(no_mangle)]
        pub extern "C" fn $alias($($arg: $type),*) -> $crate::Status {
            $crate::failure::guard(stringify!($name), move || $body)
        }
    )*};
}

pub mod collectives;
pub mod communicators;
pub mod device;
pub mod extensions;
pub mod groups;
pub mod library;
pub mod memory;
pub mod messages;
pub mod parameters;
pub mod reductions;
pub mod windows;
