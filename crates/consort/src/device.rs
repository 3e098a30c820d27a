//! Accelerators, as far as collectives have to do with them.
//!
//! # The subject
//!
//! A [`Device`] is an accelerator that CUDA's driver knows. What it does is put into [streams](Stream), each
//! of which does one thing after the other; the program goes on meanwhile. An [`Event`] tells how far a
//! stream has come, and another stream can wait for it without the program's doing. [`Memory`] is a
//! device's, which the program cannot touch: bytes are copied to it and from it, and calls of a
//! [group](crate::Group) work on it where it is ([`calls`]).
//!
//! The driver is found when the program runs: `CONSORT_CUDA_LIBRARY`, or `libcuda.so.1` where the system
//! looks. Nothing of CUDA is needed to build.
//!
//! # Where to start
//!
//! ```no_run
//! use consort::device::Driver;
//!
//! let device = Driver::load()?.device(0)?;
//! let mut memory = device.allocate(1 << 20)?;
//! memory.write(0, &[1; 1024])?;
//! # Ok::<(), consort::device::DeviceError>(())
//! ```

mod block;
pub mod calls;
mod copy;
mod error;
mod memory;
mod region;
mod stream;
mod streams;
mod table;

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use consort_sys::dl::Library;
use consort_sys::origin::Origin;

pub(crate) use self::block::Block;
pub(crate) use self::error::CORRECT;
pub use self::error::{Code, DeviceError};
pub use self::memory::Memory;
pub use self::region::Region;
pub use self::stream::{Event, Stream};
pub use self::streams::{Launched, Streams};
use self::table::{Handle, Table};

/// CUDA's driver. There is one of each library in a process, for as long as it lives.
pub struct Driver {
    path: PathBuf,
    table: Table,
}

impl Driver {
    /// The one that is named in `CONSORT_CUDA_LIBRARY`, or that of the system.
    ///
    /// ```
    /// use consort::device::{DeviceError, Driver};
    ///
    /// match Driver::load() {
    ///     Ok(driver) => println!("{} devices", driver.count()?),
    ///     Err(error) => println!("{error}"),
    /// }
    /// # Ok::<(), DeviceError>(())
    /// ```
    ///
    /// # Errors
    /// When there is none, or it does not work.
    pub fn load() -> Result<&'static Self, DeviceError> {
        match std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
            Some(path) => Self::open(Path::new(&path)).map_err(|error| match error {
                DeviceError::NoDriver(why) => DeviceError::NamedNoDriver(why),
                other => other,
            }),
            None => Self::open(Path::new(SYSTEMS)),
        }
    }

    /// That of a library.
    ///
    /// # Errors
    /// When it cannot be loaded, or is none, or does not work.
    pub fn open(path: &Path) -> Result<&'static Self, DeviceError> {
        let mut drivers = DRIVERS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = drivers.get(path) {
            return Ok(driver);
        }
        let library = Library::open([path.to_owned()]).map_err(DeviceError::NoDriver)?;
        let table = Table::of(&library)?;
        table.init()?;
        let driver: &'static Self = Box::leak(Box::new(Self { path: path.to_owned(), table }));
        drivers.insert(path.to_owned(), driver);
        Ok(driver)
    }

    /// What it was found by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many devices this process may use.
    ///
    /// # Errors
    /// When the driver does not say.
    pub fn count(&self) -> Result<u16, DeviceError> {
        self.table.count()
    }

    /// What one of them is called, without using it.
    ///
    /// # Errors
    /// When there is none of this number, or the driver does not say.
    pub fn name_of(&self, number: u16) -> Result<String, DeviceError> {
        self.table.name(self.table.device(number)?)
    }

    /// One of them.
    ///
    /// # Errors
    /// When there is none of this number, or it cannot be used.
    pub fn device(&'static self, number: u16) -> Result<Device, DeviceError> {
        let count = self.count()?;
        if number >= count {
            return Err(DeviceError::NoDevice { number, count });
        }
        let device = self.table.device(number)?;
        let context = self.table.retain(device)?;
        let origin = Origin::here();
        Ok(Device(Arc::new(Held { driver: self, origin, number, device, context })))
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the driver {}", self.path.display())
    }
}

/// A process's hold on an accelerator. Clones are the same.
#[derive(Clone)]
pub struct Device(Arc<Held>);

struct Held {
    driver: &'static Driver,
    /// What a forked child has of it, and of all that was made of it, is its parent's, and stays as it is when the child
    /// drops it.
    origin: Origin,
    number: u16,
    device: c_int,
    context: Handle,
}

impl Device {
    /// Its number in this process.
    pub fn number(&self) -> u16 {
        self.0.number
    }

    /// What it is called.
    ///
    /// # Errors
    /// When the driver does not say.
    pub fn name(&self) -> Result<String, DeviceError> {
        self.0.driver.table.name(self.0.device)
    }

    /// A stream of its own.
    ///
    /// # Errors
    /// When the driver has no room for one.
    pub fn stream(&self) -> Result<Stream, DeviceError> {
        Stream::new(self)
    }

    /// So many bytes of its memory, which may be anything.
    ///
    /// # Errors
    /// When there are not so many left.
    pub fn allocate(&self, bytes: usize) -> Result<Memory, DeviceError> {
        Memory::new(self, bytes)
    }

    /// Has what this thread asks of CUDA, or of libraries that use it, be asked of this device.
    ///
    /// # Errors
    /// When the driver fails.
    pub fn make_current(&self) -> Result<(), DeviceError> {
        self.0.driver.table.make_current(self.0.context)
    }

    /// Has libraries that use CUDA work with this device in `body`, on this thread.
    pub(crate) fn inside<T>(&self, body: impl FnOnce() -> T) -> Result<T, DeviceError> {
        let _inside = self.enter()?;
        Ok(body())
    }

    /// Has them end something of this device's in `end`, which is done also when the driver fails.
    pub(crate) fn end_inside<T>(&self, end: impl FnOnce() -> T) -> T {
        let inside = self.enter();
        if let Err(error) = &inside {
            tracing::warn!("something of {self:?} ends outside of its context: {error}");
        }
        end()
    }

    /// Whether this is the process that holds it, and no child of that.
    fn is_at_home(&self) -> bool {
        self.0.origin.is_here()
    }

    /// Has this thread work with it, until what this gives is dropped.
    fn enter(&self) -> Result<Inside, DeviceError> {
        let table = &self.0.driver.table;
        table.enter(self.0.context)?;
        Ok(Inside(table))
    }
}

/// What a thread works with that is within a device's context. It had another before, and has it again.
struct Inside(&'static Table);

impl Deref for Inside {
    type Target = Table;

    fn deref(&self) -> &Table {
        self.0
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if let Err(error) = self.0.leave() {
            tracing::warn!("a thread cannot leave the context of a device: {error}");
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.origin.is_here() {
            return;
        }
        if let Err(error) = self.driver.table.release(self.device) {
            tracing::warn!("device {} cannot be let go: {error}", self.number);
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {} of {:?}", self.0.number, self.0.driver)
    }
}

static DRIVERS: Mutex<BTreeMap<PathBuf, &'static Driver>> = Mutex::new(BTreeMap::new());
const VARIABLE: &str = "CONSORT_CUDA_LIBRARY";
const SYSTEMS: &str = "libcuda.so.1";
