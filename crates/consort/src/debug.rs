//! How much a rank tells of what it does.

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

use tracing::Level;

/// How much a rank tells of what it does, beside the [record](crate::trace) of its calls that it always
/// keeps. Ranks may differ in it.
///
/// `docs/performance.md` says what each level costs.
///
/// ```
/// use consort::DebugLevel;
///
/// assert_eq!("detail".parse(), Ok(DebugLevel::Detail));
/// assert_eq!(DebugLevel::default().to_string(), "off");
/// let error = "all".parse::<DebugLevel>().unwrap_err();
/// assert_eq!(error.to_string(), r#"no debug level "all"; choose off, info or detail"#);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DebugLevel {
    /// `off`: nothing else.
    #[default]
    Off,
    /// `info`: a line when this rank has chosen its network interface, and one for each group that is
    /// formed: how many ranks it has, on how many hosts, and how its data travels. They go where the
    /// program's `tracing` subscriber puts them; if it has none for them, to standard error.
    Info,
    /// `detail`: the same; and every call is recorded with the file and line where the program makes it,
    /// which `consort trace` shows, and errors that end the group.
    Detail,
}

impl DebugLevel {
    /// Says something in a line, if that was asked for.
    pub(crate) fn say(self, rank: u32, text: fmt::Arguments<'_>) {
        tracing::info!(rank, "{text}");
        if self >= Self::Info && !tracing::enabled!(Level::INFO) {
            // Nobody may be listening.
            let _ = writeln!(io::stderr(), "consort: rank {rank}: {text}");
        }
    }
}

impl FromStr for DebugLevel {
    type Err = UnknownDebugLevel;

    fn from_str(name: &str) -> Result<Self, UnknownDebugLevel> {
        match name {
            "off" => Ok(Self::Off),
            "info" => Ok(Self::Info),
            "detail" => Ok(Self::Detail),
            _ => Err(UnknownDebugLevel { name: name.to_owned() }),
        }
    }
}

impl fmt::Display for DebugLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Info => "info",
            Self::Detail => "detail",
        })
    }
}

/// There is no [`DebugLevel`] of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no debug level {name:?}; choose off, info or detail")]
pub struct UnknownDebugLevel {
    name: String,
}
