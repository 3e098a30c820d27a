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

use std::path::PathBuf;

use crate::device::Driver;
use crate::mpi::Mpi;
use crate::nccl::Library;

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

/// The MPI of this host.
///
/// # Errors
/// Why it cannot be used.
pub fn mpi() -> Result<Found, String> {
    let (path, version) = Mpi::find()?;
    Ok(Found { path, version, devices: Vec::new() })
}

/// NCCL, with the devices of this process.
///
/// # Errors
/// Why it cannot be used: there is none, or there is no device for it.
pub fn nccl() -> Result<Found, String> {
    let library = Library::find().map_err(|error| error.to_string())?;
    let (path, version) = (library.path().to_owned(), library.version());
    let version = match library.identity() {
        Some(identity) => format!("{version} ({identity})"),
        None => version.to_string(),
    };
    match devices() {
        Ok(devices) => Ok(Found { path, version, devices }),
        Err(why) => Err(format!("NCCL {version} is at {}, but {why}", path.display())),
    }
}

/// What the devices are called.
fn devices() -> Result<Vec<String>, String> {
    let driver = Driver::load().map_err(|error| error.to_string())?;
    let count = driver.count().map_err(|error| error.to_string())?;
    if count == 0 {
        return Err("this process may use no device".to_owned());
    }
    (0..count)
        .map(|number| driver.name_of(number))
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())
}
