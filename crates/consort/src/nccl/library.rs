//! The loaded NCCL.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use consort_sys::dl;

use super::code::Code;
use super::error::{Error, Failure, Result};
use super::feature::Feature;
use super::find::SEARCH;
use super::table::{Absent, Answer, FUNCTIONS, Handle, Table};
use super::version::Version;
use crate::places::Places;

/// An NCCL that was loaded. It stays so for as long as the process lives, and is loaded once.
///
/// ```
/// use consort::nccl::{BUILT_AGAINST, Error, Feature, Library};
///
/// match Library::find() {
///     Ok(library) => {
///         println!("{} is NCCL {}", library.path().display(), library.version());
///         println!("this program knows {BUILT_AGAINST}");
///         println!("it can shrink: {}", library.has(Feature::Shrink));
///     }
///     Err(error) => println!("{error}"), // everything that was tried, and how to get it
/// }
/// ```
#[derive(Clone, Copy)]
pub struct Library(&'static Loaded);

struct Loaded {
    table: Table,
    path: PathBuf,
    version: Version,
    identity: Option<String>,
}

impl Library {
    /// The one that `CONSORT_NCCL_LIBRARY` names; or else the first that there is: `libnccl.so.2` or `libnccl.so`
    /// where the system looks; the wheels `nvidia-nccl-cu12` and `-cu13` in the active Python environment, beside
    /// the first `python3`, or in the home folder. What was found once is found again.
    ///
    /// # Errors
    /// When there is none; says what was tried.
    pub fn find() -> Result<Self> {
        if let Some(library) = FOUND.get() {
            return Ok(*library);
        }
        let library = Self::first(SEARCH.here())?;
        Ok(*FOUND.get_or_init(|| library))
    }

    /// The same, if it has what every version has: so much is needed by a group.
    ///
    /// # Errors
    /// When there is none, or it lacks something of that.
    pub(crate) fn find_whole() -> Result<Self> {
        let library = Self::find()?;
        let mut all = library.functions();
        let lacking = all.find(|(_, since, is_there)| *since == OLDEST && !is_there);
        lacking.map_or(Ok(library), |(function, ..)| {
            let (path, reason) = (library.path().to_owned(), format!("it has no {function}"));
            Err(Error::NotNccl { path, reason })
        })
    }

    /// This file.
    ///
    /// # Errors
    /// When it cannot be loaded, or is not NCCL.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        Self::first(Places { candidates: vec![path.into()], ..Places::default() })
    }

    fn first(Places { candidates, empty, is_named }: Places) -> Result<Self> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tried = Vec::new();
        for path in candidates {
            if let Some(library) = loaded.get(&path) {
                return Ok(*library);
            }
            match dl::Library::open([path.clone()]) {
                Ok(found) => {
                    let library = Self::of(&found)?;
                    loaded.insert(path, library);
                    return Ok(library);
                }
                Err(error) => tried.extend(error.tried),
            }
        }
        let not_loaded = if is_named { Error::NamedNotLoaded } else { Error::NotLoaded };
        Err(not_loaded(Places::exhausted(empty, tried)))
    }

    fn of(found: &dl::Library) -> Result<Self> {
        let path = found.path().to_owned();
        let table = Table::of(found);
        let not_nccl = |reason: String| Error::NotNccl { path: path.clone(), reason };
        let (code, number) = table
            .version()
            .map_err(|Absent { function, .. }| not_nccl(format!("it has no {function}")))?;
        let version = Version::from_code(number).filter(|_| code == Code::SUCCESS);
        let version = version
            .ok_or_else(|| not_nccl(format!("ncclGetVersion answered {code}, version {number}")))?;
        let identity = table.identity();
        Ok(Self(Box::leak(Box::new(Loaded { table, path, version, identity }))))
    }

    /// What it was found by.
    pub fn path(self) -> &'static Path {
        &self.0.path
    }

    /// Its version.
    pub fn version(self) -> Version {
        self.0.version
    }

    /// What it says of itself, if it is not NVIDIA's but consort's own, which works on host memory.
    pub fn identity(self) -> Option<&'static str> {
        self.0.identity.as_deref()
    }

    /// Whether it can do something.
    pub fn has(self, feature: Feature) -> bool {
        let is_there = |function: &&str| self.0.table.has(function);
        self.version() >= feature.since() && feature.functions().iter().all(is_there)
    }

    /// All that it can do.
    pub fn features(self) -> impl Iterator<Item = Feature> {
        Feature::ALL.iter().copied().filter(move |feature| self.has(*feature))
    }

    /// Every function of NCCL that this crate may call, the first version that has it, and whether this library
    /// does.
    pub fn functions(self) -> impl Iterator<Item = (&'static str, Version, bool)> {
        FUNCTIONS.iter().map(move |(name, since)| (*name, *since, self.0.table.has(name)))
    }

    /// What it says that a code means.
    pub fn error_string(self, code: Code) -> String {
        self.0.table.error_string(code).unwrap_or_else(|| code.to_string())
    }

    /// What it last complained about on this thread, if anything. Before 2.13 it does not tell.
    pub fn last_error(self) -> String {
        self.0.table.last_error(None).unwrap_or_default()
    }

    /// Whether "device memory" is the host's: that of consort's own.
    pub(super) fn is_on_host(self) -> bool {
        self.0.identity.is_some()
    }

    pub(super) fn table(self) -> &'static Table {
        &self.0.table
    }

    /// Takes an answer for what it is: an error, unless it is done or goes on by itself.
    pub(super) fn succeed<T: Told>(
        self,
        function: &'static str,
        answer: Answer<T>,
        rank: Option<(u32, u32)>,
    ) -> Result<T> {
        let answer = answer.map_err(|absent| self.missing(absent))?;
        match answer.code() {
            Code::SUCCESS | Code::IN_PROGRESS => Ok(answer),
            code => Err(self.failure(function, code, None, rank)),
        }
    }

    /// What to say of a function that failed.
    pub(super) fn failure(
        self,
        function: &'static str,
        code: Code,
        comm: Option<&Handle>,
        rank: Option<(u32, u32)>,
    ) -> Error {
        let text = self.error_string(code);
        let last = self.table().last_error(comm).unwrap_or_default();
        Error::Failed(Box::new(Failure { function, code, text, last, rank }))
    }

    /// What to say of a function that is not there.
    pub(super) fn missing(self, Absent { function, needed }: Absent) -> Error {
        Error::NeedsVersion { function, needed, found: self.version() }
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NCCL {} at {}", self.version(), self.path().display())?;
        match self.identity() {
            Some(identity) => write!(f, " ({identity})"),
            None => Ok(()),
        }
    }
}

impl PartialEq for Library {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Library {}

/// An answer with a code in it.
pub(super) trait Told {
    /// The code.
    fn code(&self) -> Code;
}

impl Told for Code {
    fn code(&self) -> Code {
        *self
    }
}

impl<T> Told for (Code, T) {
    fn code(&self) -> Code {
        self.0
    }
}

/// The oldest version that this crate knows.
const OLDEST: Version = Version::new(2, 3, 0);
/// What was looked for.
static FOUND: OnceLock<Library> = OnceLock::new();
/// By what they were found by.
static LOADED: Mutex<BTreeMap<PathBuf, Library>> = Mutex::new(BTreeMap::new());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_nccl_is_not_taken_for_it() {
        let error = Library::open("libm.so.6").unwrap_err();
        assert_eq!(error.to_string(), "libm.so.6 is not NCCL: it has no ncclGetVersion");
    }

    #[test]
    fn what_is_not_there_is_listed_with_advice() {
        let error = Library::open("/nowhere/libnccl.so.2").unwrap_err().to_string();
        assert!(error.contains("/nowhere/libnccl.so.2: cannot open shared object file"), "{error}");
        assert!(error.contains("pip install nvidia-nccl-cu12"), "{error}");
    }

    #[test]
    fn what_is_named_and_not_there_is_to_be_corrected() {
        let candidates = vec![PathBuf::from("/nowhere/libnccl.so.2")];
        let places = Places { candidates, is_named: true, ..Places::default() };
        let error = Library::first(places).unwrap_err().to_string();
        assert!(error.contains("/nowhere/libnccl.so.2: cannot open shared object file"), "{error}");
        assert!(
            error.ends_with(
                "; correct CONSORT_NCCL_LIBRARY, or unset it to have consort look by itself"
            ),
            "{error}"
        );
    }
}
