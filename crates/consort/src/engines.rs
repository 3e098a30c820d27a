//! Which engines this host has, beside the one that consort brings.
//!
//! They are libraries of others, found when the program runs; [`Engine`](crate::Engine) chooses among them.
//! Nothing is begun here: it is only looked what there is.
//!
//! ```
//! for (name, found) in [("MPI", consort::engines::mpi()), ("NCCL", consort::engines::nccl())] {
//!     match found {
//!         Ok(engine) => println!("{name}: {}, {}", engine.version, engine.path.display()),
//!         Err(why) => println!("{name} cannot be used: {why}"),
//!     }
//! }
//! ```

use std::fmt;
use std::path::PathBuf;

use consort_sys::dl::NotLoaded;

use crate::device::{CORRECT, DeviceError, Driver};
use crate::mpi::Mpi;
use crate::nccl::{self, Library};

/// An engine that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// What it was found by.
    pub path: PathBuf,
    /// Which it is, in its own words.
    pub version: String,
    /// What it works on, if not on this host's memory.
    pub devices: Vec<String>,
}

/// Why an engine cannot be used, and what to do about it.
///
/// ```
/// use consort::engines::{self, Unusable};
///
/// if let Err(Unusable { why, tried, advice }) = engines::nccl() {
///     println!("no NCCL: {why}");
///     tried.iter().for_each(|reason| println!("    {reason}"));
///     println!("{}", advice.unwrap_or("ask whoever has set up this host"));
/// }
///
/// // On one line:
/// let why = Unusable {
///     why: "MPI cannot be loaded".to_owned(),
///     tried: vec!["libmpi_abi.so.0: not found".to_owned(), "libmpi.so: too old".to_owned()],
///     advice: Some("install MPICH 5"),
/// };
/// assert_eq!(
///     why.to_string(),
///     "MPI cannot be loaded: libmpi_abi.so.0: not found; libmpi.so: too old; install MPICH 5"
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unusable {
    /// What is wrong, in short.
    pub why: String,
    /// Where it was looked for in vain, a line for each reason.
    pub tried: Vec<String>,
    /// What to do, where that is known.
    pub advice: Option<&'static str>,
}

impl Unusable {
    pub(crate) fn because(why: impl Into<String>) -> Self {
        Self { why: why.into(), ..Self::default() }
    }

    pub(crate) fn not_loaded(why: &str, error: &NotLoaded, advice: &'static str) -> Self {
        Self { why: why.to_owned(), tried: error.reasons(), advice: Some(advice) }
    }
}

impl fmt::Display for Unusable {
    /// On one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)?;
        if !self.tried.is_empty() {
            write!(f, ": {}", self.tried.join("; "))?;
        }
        match self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Unusable {}

impl From<nccl::Error> for Unusable {
    fn from(error: nccl::Error) -> Self {
        let (error, advice) = match &error {
            nccl::Error::NotLoaded(error) => (error, nccl::INSTALL),
            nccl::Error::NamedNotLoaded(error) => (error, nccl::CORRECT),
            _ => return Self::because(error.to_string()),
        };
        Self::not_loaded("NCCL cannot be loaded", error, advice)
    }
}

impl From<DeviceError> for Unusable {
    fn from(error: DeviceError) -> Self {
        match &error {
            DeviceError::NoDriver(error) => {
                Self::not_loaded("there is no CUDA driver", error, DRIVER)
            }
            DeviceError::NamedNoDriver(error) => {
                Self::not_loaded("the CUDA driver that is named cannot be loaded", error, CORRECT)
            }
            _ => Self::because(error.to_string()),
        }
    }
}

/// The MPI of this host.
///
/// # Errors
/// Why it cannot be used.
pub fn mpi() -> Result<Found, Unusable> {
    let (path, version) = Mpi::find()?;
    Ok(Found { path, version, devices: Vec::new() })
}

/// NCCL, with the devices of this process.
///
/// # Errors
/// Why it cannot be used: there is none, or there is no device for it.
pub fn nccl() -> Result<Found, Unusable> {
    let library = Library::find_whole()?;
    let (path, version) = (library.path().to_owned(), library.version());
    let version = match library.identity() {
        // What follows its name and its version says again which NCCL's functions these are.
        Some(identity) => {
            let name = identity.split(" (").next().unwrap_or(identity);
            format!("{version} of {name} on host memory")
        }
        None => version.to_string(),
    };
    match devices() {
        Ok(devices) => Ok(Found { path, version, devices }),
        Err(unusable) => {
            let why = format!("NCCL {version} is at {}, but {}", path.display(), unusable.why);
            let advice = match (library.identity(), unusable.advice) {
                (Some(_), Some(DRIVER)) => Some(SAME),
                (_, advice) => advice,
            };
            Err(Unusable { why, advice, ..unusable })
        }
    }
}

/// What the devices are called.
fn devices() -> Result<Vec<String>, Unusable> {
    let driver = Driver::load()?;
    match driver.count()? {
        0 => Err(Unusable {
            advice: Some("CUDA_VISIBLE_DEVICES says which it may use, if it is set"),
            ..Unusable::because("there is no device that this process may use")
        }),
        count => Ok((0..count).map(|number| driver.name_of(number)).collect::<Result<_, _>>()?),
    }
}

/// What to do where there is no driver.
const DRIVER: &str = "install NVIDIA's driver, or name it in CONSORT_CUDA_LIBRARY";
/// What to do where there is none, and the library that stands in for NCCL stands in for the driver, too.
const SAME: &str =
    "name the same library in CONSORT_CUDA_LIBRARY, too: it has the driver's functions";
