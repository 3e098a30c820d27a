//! What a version of NCCL can do.

use super::version::Version;

/// Declares the features: since when, and which functions they need.
macro_rules! features {
    ($($(#[$doc:meta])* $name:ident ($major:literal $minor:literal $patch:literal) [$($function:literal),*];)*) => {
        /// Something that not every version of NCCL can do.
        ///
        /// ```
        /// use consort::nccl::{Feature, Version};
        ///
        /// assert_eq!(Feature::Shrink.since(), Version::new(2, 27, 0));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Feature {
            $($(#[$doc])* $name,)*
        }

        impl Feature {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The first version that has it.
            pub const fn since(self) -> Version {
                match self {
                    $(Self::$name => Version::new($major, $minor, $patch),)*
                }
            }

            /// The functions that it needs.
            pub(super) const fn functions(self) -> &'static [&'static str] {
                match self {
                    $(Self::$name => &[$($function),*],)*
                }
            }
        }
    };
}

features! {
    /// Messages between two ranks.
    SendRecv (2 7 0) ["ncclSend", "ncclRecv"];
    /// Averages.
    Avg (2 10 0) [];
    /// Sums of `bf16`.
    Bf16 (2 10 0) [];
    /// Sums of numbers that are multiplied first.
    PreMulSum (2 11 0) ["ncclRedOpCreatePreMulSum", "ncclRedOpDestroy"];
    /// What it last complained about.
    LastError (2 13 0) ["ncclGetLastError"];
    /// Calls that do not block, and so have a deadline.
    NonBlocking (2 14 0) ["ncclCommInitRankConfig", "ncclCommFinalize", "ncclCommGetAsyncError"];
    /// Parts of a communicator.
    Split (2 18 0) ["ncclCommSplit"];
    /// Memory of its own making.
    Memory (2 19 0) ["ncclMemAlloc", "ncclMemFree"];
    /// Memory that is made known to a communicator.
    Register (2 19 0) ["ncclCommRegister", "ncclCommDeregister"];
    /// Estimates of what a group takes.
    Simulate (2 22 0) ["ncclGroupSimulateEnd"];
    /// Communicators by several ids.
    Scalable (2 23 0) ["ncclCommInitRankScalable"];
    /// Sums of `f8e4m3` and `f8e5m2`.
    Float8 (2 24 0) [];
    /// A communicator without some of its ranks.
    Shrink (2 27 0) ["ncclCommShrink"];
    /// Memory of all ranks that is made known to all.
    Window (2 27 0) ["ncclCommWindowRegister", "ncclCommWindowDeregister"];
    /// All-to-all, gather and scatter in one call; without it they are made of messages.
    AllToAll (2 28 3) ["ncclAlltoAll", "ncclGather", "ncclScatter"];
    /// Stopping a communicator that can still be shrunk.
    Revoke (2 28 7) ["ncclCommRevoke"];
    /// A communicator with more ranks.
    Grow (2 29 2) ["ncclCommGetUniqueId", "ncclCommGrow"];
    /// Writing to other ranks' windows, and telling them.
    OneSided (2 29 2) ["ncclPutSignal", "ncclSignal", "ncclWaitSignal", "ncclWinGetUserPtr"];
    /// Where other ranks' windows are.
    PeerPointers (2 29 2) ["ncclGetPeerDevicePointer", "ncclGetLsaDevicePointer", "ncclGetLsaMultimemDevicePointer"];
    /// Giving back memory for a while.
    Suspend (2 29 7) ["ncclCommSuspend", "ncclCommResume", "ncclCommMemStats"];
    /// Reading NCCL's parameters.
    Parameters (2 30 4) ["ncclParamGetParameter", "ncclParamGetAllParameterKeys"];
}

#[cfg(test)]
mod tests {
    use super::super::table::FUNCTIONS;
    use super::*;

    #[test]
    fn a_feature_is_as_old_as_its_functions() {
        for feature in Feature::ALL {
            for function in feature.functions() {
                let (_, since) = FUNCTIONS.iter().find(|(name, _)| name == function).unwrap();
                assert!(*since <= feature.since(), "{function}");
            }
        }
    }
}
