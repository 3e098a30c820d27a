//! What NCCL's functions answer.

use std::fmt;

/// The answer of a function of NCCL. Versions to come may give others than those that have a name here: none
/// but [`SUCCESS`](Self::SUCCESS) ever counts as success.
///
/// ```
/// use consort::nccl::Code;
///
/// assert_eq!(Code(8), Code::TIMEOUT);
/// assert_eq!(Code(8).name(), Some("ncclTimeout"));
/// assert_eq!(Code(4711).name(), None);
/// assert_eq!(Code(4711).to_string(), "4711");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code(pub i32);

impl Code {
    /// It is done, or on its stream.
    pub const SUCCESS: Self = Self(0);
    /// CUDA failed: often there is no device, or no driver that fits.
    pub const UNHANDLED_CUDA_ERROR: Self = Self(1);
    /// The system failed: sockets, files, memory.
    pub const SYSTEM_ERROR: Self = Self(2);
    /// NCCL has a mistake, or its memory was overwritten.
    pub const INTERNAL_ERROR: Self = Self(3);
    /// An argument cannot be.
    pub const INVALID_ARGUMENT: Self = Self(4);
    /// The call cannot be made now.
    pub const INVALID_USAGE: Self = Self(5);
    /// Another rank has ended, or cannot be reached.
    pub const REMOTE_ERROR: Self = Self(6);
    /// It goes on by itself.
    pub const IN_PROGRESS: Self = Self(7);
    /// It took too long. Since 2.30.
    pub const TIMEOUT: Self = Self(8);

    /// NCCL's name for it, if this crate knows it.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::SUCCESS => "ncclSuccess",
            Self::UNHANDLED_CUDA_ERROR => "ncclUnhandledCudaError",
            Self::SYSTEM_ERROR => "ncclSystemError",
            Self::INTERNAL_ERROR => "ncclInternalError",
            Self::INVALID_ARGUMENT => "ncclInvalidArgument",
            Self::INVALID_USAGE => "ncclInvalidUsage",
            Self::REMOTE_ERROR => "ncclRemoteError",
            Self::IN_PROGRESS => "ncclInProgress",
            Self::TIMEOUT => "ncclTimeout",
            _ => return None,
        })
    }

    /// What to do about it, where there is advice.
    pub(super) const fn hint(self) -> Option<&'static str> {
        Some(match self {
            Self::UNHANDLED_CUDA_ERROR => {
                "is there a GPU, and a driver that fits this NCCL? (nvidia-smi shows both; on hosts without one, \
                 libconsort_nccl.so does the same on host memory)"
            }
            Self::SYSTEM_ERROR => {
                "NCCL_DEBUG=WARN shows which call of the system failed; NCCL_SOCKET_IFNAME names the network \
                 interface to use"
            }
            Self::INVALID_ARGUMENT | Self::INVALID_USAGE => {
                "NCCL_DEBUG=WARN shows what NCCL found wrong"
            }
            Self::REMOTE_ERROR => {
                "another rank has ended or cannot be reached: abort this communicator, then shrink it or make \
                 another"
            }
            Self::TIMEOUT => "abort this communicator, and look for the rank that did not come",
            _ => return None,
        })
    }
}

/// NCCL's name and the number, or only the number.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}
