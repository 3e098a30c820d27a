//! Who carries out calls.

use std::fmt;
use std::str::FromStr;

/// Who carries out a job's calls.
///
/// Calls on the [memory of devices](crate::device) are NCCL's with each of them but `host` and `fake`, once there
/// are such calls; what is chosen here is who has the others.
///
/// ```
/// use consort::Engine;
///
/// assert_eq!("mpi".parse(), Ok(Engine::Mpi));
/// assert_eq!(Engine::default().to_string(), "auto");
/// let error = "gloo".parse::<Engine>().unwrap_err();
/// assert_eq!(error.to_string(), r#"no engine "gloo"; choose auto, host, mpi, nccl or fake"#);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Engine {
    /// `auto`: the ranks themselves, as with [`Host`](Self::Host); but MPI where the ranks that its launcher has
    /// started are on several hosts and have met [by it](crate::init), unless it is said what their own ways are to be
    /// like: by a [`Transport`](crate::Transport), an algorithm, a number of streams, encryption or checksums.
    #[default]
    Auto,
    /// `host`: the processors of the ranks, over the [`Transport`](crate::Transport) that there is. Calls on the
    /// memory of devices are refused.
    Host,
    /// `mpi`: the MPI of this cluster, found when the program runs: any with the standard's own binary interface,
    /// `libmpi_abi.so`. Its launcher has to have started the ranks.
    Mpi,
    /// `nccl`: as [`Auto`](Self::Auto), for ranks that have a device each: one without NCCL, or without a device,
    /// is named to all of them at the beginning and not by its first call there.
    Nccl,
    /// `fake`: nobody. Each process pretends to be one of the ranks, as in [`Group::fake`](crate::Group::fake): to try
    /// a program of many ranks without the others. Results are not computed.
    Fake,
}

impl Engine {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Auto, Self::Host, Self::Mpi, Self::Nccl, Self::Fake];

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Host => "host",
            Self::Mpi => "mpi",
            Self::Nccl => "nccl",
            Self::Fake => "fake",
        }
    }
}

impl FromStr for Engine {
    type Err = UnknownEngine;

    fn from_str(name: &str) -> Result<Self, UnknownEngine> {
        let found = Self::ALL.into_iter().find(|engine| engine.name() == name);
        found.ok_or_else(|| UnknownEngine { name: name.to_owned() })
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// There is no [`Engine`] of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no engine {name:?}; choose {}", names())]
pub struct UnknownEngine {
    name: String,
}

/// All names, as people list them.
fn names() -> String {
    let names = Engine::ALL.map(Engine::name);
    let (last, others) = names.split_last().expect("there are some");
    format!("{} or {last}", others.join(", "))
}
