//! Why a call failed, and where a program can read it afterwards.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread::LocalKey;

use consort::{Error, ErrorKind};
use consort_sys::net;

use crate::lock;
use crate::status::Status;

/// The result of whatever can fail here.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) text: String,
}

impl Failure {
    /// An argument makes no sense.
    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self { status: Status::INVALID_ARGUMENT, text: text.into() }
    }

    /// The call makes no sense here, or not now.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self { status: Status::INVALID_USAGE, text: text.into() }
    }

    /// The system has refused something.
    pub(crate) fn system(text: impl Into<String>) -> Self {
        Self { status: Status::SYSTEM_ERROR, text: text.into() }
    }

    /// What it asks for is that of the process which this one was forked from.
    pub(crate) fn forked(what: &str) -> Self {
        Self::usage(format!(
            "{what} was made in the process that this one was forked from, whose threads a child has not: make \
             it after the fork"
        ))
    }

    /// Not a failure: it goes on in the background.
    pub(crate) fn in_progress() -> Self {
        Self { status: Status::IN_PROGRESS, text: String::new() }
    }

    fn internal(text: impl Into<String>) -> Self {
        Self { status: Status::INTERNAL_ERROR, text: text.into() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Argument(_) | Error::Unsupported(_) => Status::INVALID_ARGUMENT,
            Error::Damaged { .. } | Error::Diverged { .. } | Error::Abandoned { .. } => {
                Status::INTERNAL_ERROR
            }
            Error::PeerUnable { .. } | Error::Unable { .. } => Status::REMOTE_ERROR,
            // The other ways to fail there are about what the environment says.
            Error::Interface(net::Error::System(_)) => Status::SYSTEM_ERROR,
            other => status_of(other.kind()),
        };
        Self { status, text: in_c(&error.to_string()) }
    }
}

/// What consort says, with the names of what programs in C have for it.
fn in_c(text: &str) -> String {
    NAMES.iter().fold(text.to_owned(), |text, (rust, c)| text.replace(rust, c))
}

impl From<consort_store::Error> for Failure {
    fn from(error: consort_store::Error) -> Self {
        Self { status: status_of(error.kind()), text: error.to_string() }
    }
}

fn status_of(kind: ErrorKind) -> Status {
    match kind {
        ErrorKind::Mistake | ErrorKind::Mismatch => Status::INVALID_USAGE,
        ErrorKind::Deadline => Status::TIMEOUT,
        ErrorKind::PeerGone | ErrorKind::Aborted => Status::REMOTE_ERROR,
        _ => Status::SYSTEM_ERROR,
    }
}

/// Carries out an exported function. Nothing unwinds out of it, and what it says of a failure can be read
/// with `ncclGetLastError`.
pub(crate) fn guard(name: &str, body: impl FnOnce() -> Result<()>) -> Status {
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return Status::SUCCESS,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::internal(words_of(&*panic)),
    };
    if failure.status != Status::IN_PROGRESS {
        remember(&format!("{name}: {}", failure.text));
    }
    failure.status
}

/// Carries out something that has nobody to tell of a panic.
pub(crate) fn catch<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|panic| Err(Failure::internal(words_of(&*panic))))
}

/// The last thing that went wrong: what is given, or in this thread, or in any. It stays until the thread
/// asks again.
pub(crate) fn last(of_comm: Option<String>) -> *const c_char {
    let found = of_comm.map(|text| clean(&text));
    let mine = || LAST.try_with(|last| last.borrow().clone()).ok().flatten();
    let any = || lock(&ANYBODYS).clone();
    show(&SHOWN, found.or_else(mine).or_else(any).unwrap_or_default())
}

/// Puts a text where C can read it until the thread shows another. In a thread that is about to end, and has let go
/// of all that was its own, it stays for good.
pub(crate) fn show(place: &'static LocalKey<RefCell<CString>>, text: CString) -> *const c_char {
    let mut text = Some(text);
    let shown = place.try_with(|shown| {
        let mut shown = shown.borrow_mut();
        *shown = text.take().unwrap_or_default();
        shown.as_ptr()
    });
    shown.unwrap_or_else(|_| text.take().unwrap_or_default().into_raw())
}

/// Keeps a text for [`last`].
pub(crate) fn remember(text: &str) {
    let text = clean(text);
    *lock(&ANYBODYS) = Some(text.clone());
    // In a thread that is about to end it may be gone: then it is anybody's.
    let _ = LAST.try_with(|last| *last.borrow_mut() = Some(text));
}

/// As C can read it, with who says so.
fn clean(text: &str) -> CString {
    let bytes = format!("{} {text}", crate::api::extensions::SIGNATURE).replace('\0', " ");
    CString::new(bytes).unwrap_or_default()
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("a fault of this library: {}", words.unwrap_or("it has panicked"))
}

/// Keeps texts as they are until what it gives is dropped: see [`fork`](crate::fork).
pub(crate) fn hold_all() -> Box<dyn Any> {
    Box::new(lock(&ANYBODYS))
}

thread_local! {
    static LAST: RefCell<Option<CString>> = const { RefCell::new(None) };
    /// What the program may still look at.
    static SHOWN: RefCell<CString> = RefCell::new(CStr::to_owned(c""));
}

/// What consort's errors name, and what stands for it here.
const NAMES: [(&str, &str); 3] = [
    ("Group::shrink", "ncclCommShrink"),
    ("Group::error", "ncclCommGetAsyncError"),
    ("Builder::timeout or CONSORT_TIMEOUT", "CONSORT_TIMEOUT"),
];
/// For threads in which nothing went wrong: what did may have gone wrong in the background.
static ANYBODYS: Mutex<Option<CString>> = Mutex::new(None);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_unwinds_and_what_went_wrong_can_be_read() {
        assert_eq!(guard("ncclTest", || Ok(())), Status::SUCCESS);
        assert_eq!(guard("ncclTest", || panic!("over {}", 7)), Status::INTERNAL_ERROR);
        assert_eq!(guard("ncclTest", || Err(Failure::in_progress())), Status::IN_PROGRESS);
        // SAFETY: it stays until this thread asks again.
        #[allow(unsafe_code)]
        let text = unsafe { CStr::from_ptr(last(None)) }.to_str().unwrap();
        assert!(text.starts_with("[consort-nccl "), "{text}");
        assert!(text.ends_with("ncclTest: a fault of this library: over 7"), "{text}");
    }

    #[test]
    fn errors_are_sorted_as_programs_expect_them() {
        let left = Error::Left {
            group: "world".to_owned(),
            ranks: vec![1],
            by: 0,
            call: "all_reduce".into(),
            number: 3,
        };
        let cases = [
            (Error::Argument("no".to_owned()), Status::INVALID_ARGUMENT),
            (left, Status::REMOTE_ERROR),
            (Error::Fake, Status::INVALID_USAGE),
            (
                Error::Aborted { group: String::new(), by: 1, reason: String::new() },
                Status::REMOTE_ERROR,
            ),
        ];
        for (error, status) in cases {
            let text = error.to_string();
            assert_eq!(Failure::from(error), Failure { status, text });
        }
    }
}
