//! Libraries that are found when the program runs, or not: engines of a cluster that this one was not built
//! against.
//!
//! ```
//! use consort_sys::dl::Library;
//!
//! let libm = Library::open(["libm.so.6".into()])?;
//! // SAFETY: the C standard says so.
//! let cosine: Option<unsafe extern "C" fn(f64) -> f64> = unsafe { libm.function(c"cos") };
//! // SAFETY: any number has one.
//! assert_eq!(unsafe { cosine.expect("it is there")(0.0) }, 1.0);
//! let error = Library::open(["libnowhere.so.7".into()]).unwrap_err();
//! assert!(error.to_string().contains("libnowhere.so.7"));
//! # Ok::<(), consort_sys::dl::NotLoaded>(())
//! ```

mod file;

use std::ffi::CStr;
use std::fmt;
use std::path::{Path, PathBuf};

use self::file::{behind_script, refusal};

/// A library that was loaded. It stays so for as long as the process lives: threads of its own may run in it.
#[derive(Debug)]
pub struct Library {
    handle: &'static libloading::Library,
    path: PathBuf,
}

impl Library {
    /// The first of these that can be loaded. A name without a folder is looked for where the system looks; a script for
    /// linkers, which some packages have in place of a link to their library, leads to the library.
    ///
    /// # Errors
    /// When none can; says of each why.
    pub fn open(candidates: impl IntoIterator<Item = PathBuf>) -> Result<Self, NotLoaded> {
        let mut tried = Vec::new();
        for mut path in candidates {
            let mut loaded = load(&path);
            if loaded.is_err()
                && let Some(library) = behind_script(&path)
            {
                path = library;
                loaded = load(&path);
            }
            match loaded {
                Ok(handle) => return Ok(Self { handle, path }),
                Err(reason) => tried.push((path, reason)),
            }
        }
        Err(NotLoaded { tried })
    }

    /// What it was found by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A function that it exports, if it does. It can be called for as long as the process lives.
    ///
    /// # Safety
    /// `F` is the type of a pointer to a function, and of this one.
    pub unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        // SAFETY: the caller promises it.
        let symbol = unsafe { self.handle.get::<F>(name) };
        symbol.ok().map(|symbol| *symbol)
    }
}

/// No such library could be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotLoaded {
    /// What was tried, and why it could not be.
    pub tried: Vec<(PathBuf, String)>,
}

impl NotLoaded {
    /// Why, a line for all in a row that have the same reason.
    pub fn reasons(&self) -> Vec<String> {
        let alike = self.tried.chunk_by(|(_, one), (_, other)| one == other);
        let line = |alike: &[(PathBuf, String)]| {
            let paths: Vec<_> = alike.iter().map(|(path, _)| path.to_string_lossy()).collect();
            format!("{}: {}", paths.join(", "), alike[0].1)
        };
        alike.map(line).collect()
    }
}

impl fmt::Display for NotLoaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tried.as_slice() {
            [] => f.write_str("there was nowhere to look"),
            _ => f.write_str(&self.reasons().join("; ")),
        }
    }
}

impl std::error::Error for NotLoaded {}

fn load(path: &Path) -> Result<&'static libloading::Library, String> {
    refusal(path).map_or(Ok(()), Err)?;
    // SAFETY: what a library does when it is loaded is up to whoever names it: the system's owner, or the user. It is
    // not unloaded, so nothing of it is used after its end.
    let loaded = unsafe { libloading::Library::new(path) };
    loaded.map(|handle| &*Box::leak(Box::new(handle))).map_err(|error| reason(&error))
}

/// The loader's own words, without the name that it repeats.
fn reason(error: &libloading::Error) -> String {
    let text = match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    };
    text.split_once(": ").map_or(text.clone(), |(_, rest)| rest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_can_be_loaded_is() {
        let library = Library::open(["libnowhere.so".into(), "libm.so.6".into()]).unwrap();
        assert_eq!(library.path(), Path::new("libm.so.6"));
        // SAFETY: there is none.
        assert!(unsafe { library.function::<unsafe extern "C" fn()>(c"no_such_thing") }.is_none());
    }

    #[test]
    fn of_each_that_cannot_it_is_said_why() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text.so");
        std::fs::write(&text, "no library").unwrap();
        let error = Library::open(["libnowhere.so".into(), text.clone()]).unwrap_err();
        assert_eq!(error.tried.len(), 2);
        assert!(error.tried[0].1.starts_with("cannot open shared object file"), "{error}");
        assert!(error.to_string().contains(&format!("{}: ", text.display())), "{error}");
        assert_eq!(Library::open([]).unwrap_err().to_string(), "there was nowhere to look");
    }

    #[test]
    fn a_reason_that_several_have_is_said_once() {
        let tried = [("/a", "gone"), ("/b", "gone"), ("/c", "odd"), ("/d", "gone")];
        let tried = tried.map(|(path, reason)| (path.into(), reason.to_owned())).into();
        assert_eq!(NotLoaded { tried }.to_string(), "/a, /b: gone; /c: odd; /d: gone");
    }
}
