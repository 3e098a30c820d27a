//! The wall between pointers and owned memory: the one place that calls MPI.
//!
//! What makes its calls safe is ownership. An operation is given [memory](Memory) and the
//! [task](Task) that says how much of it is used, which is checked; both stay with the operation until MPI
//! says that it is done, and if nobody waits for that they are never freed.
#![allow(unsafe_code, reason = "MPI is called here, and nowhere else")]

mod functions;
mod start;
mod task;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;
use std::sync::OnceLock;
use std::{fmt, io};

use consort_sys::dl::Library;
use rustix::net::{SendFlags, send};

pub(crate) use self::functions::Arithmetic;
use self::functions::{
    ANY_SOURCE, BYTE, COMM_NULL, Count, ERRHANDLER_NULL, FAREWELL, Functions, GROUP_NULL, Handle,
    MAX_ERROR_STRING, MAX_LIBRARY_VERSION_STRING, MESSAGE_NULL, REQUEST_NULL, SUCCESS, Status, TAG,
    THREAD_MULTIPLE, VERSION, WORLD,
};
pub(crate) use self::task::{Parts, Task};
use super::memory::Memory;

/// A loaded MPI.
#[derive(Debug)]
pub(super) struct Table {
    functions: Functions,
    /// Whether somebody else has begun MPI here, and so ends it.
    pub(super) is_guest: bool,
    /// What communicators have errors returned by, once there is one.
    on_error: OnceLock<Handle>,
}

/// A communicator: ranks that MPI carries data between. Whoever has made one frees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comm {
    handle: Handle,
    pub(super) me: usize,
    pub(super) world: usize,
}

/// Something that MPI is at, with the memory that it is lent for that.
#[derive(Debug)]
pub(crate) struct Pending {
    table: &'static Table,
    request: Handle,
    /// What MPI may read and write until it is done. Dropped before that, it is left to MPI for good.
    lent: Option<(Task, Memory)>,
    /// Why it has failed, if it has.
    failure: Option<MpiError>,
}

/// Messages that are received apart from others, each class in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// What there is to say.
    Message,
    /// That nothing more is.
    Farewell,
}

impl Class {
    fn tag(self) -> c_int {
        match self {
            Self::Message => TAG,
            Self::Farewell => FAREWELL,
        }
    }
}

/// What MPI says is wrong, in its own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MpiError {
    what: &'static str,
    text: String,
}

impl MpiError {
    pub(super) fn new(what: &'static str, text: impl Into<String>) -> Self {
        Self { what, text: text.into() }
    }
}

impl fmt::Display for MpiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.text)
    }
}

impl std::error::Error for MpiError {}

impl Table {
    /// The one in this library.
    ///
    /// # Errors
    /// When it has not all functions that the standard says it has, or is of another version of the interface: what is
    /// to be said of it then.
    pub(super) fn of(library: &Library) -> Result<Self, String> {
        let missing = |name: &CStr| {
            let name = name.to_string_lossy();
            format!("is no MPI with the standard's binary interface (MPI 5): it has no {name}")
        };
        let functions = Functions::of(library).map_err(missing)?;
        let table = Self { functions, is_guest: false, on_error: OnceLock::new() };
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both are numbers of this frame, which it writes.
        let code = unsafe { (table.functions.abi_version)(&mut major, &mut minor) };
        let silent = |error| format!("does not say which binary interface it has: {error}");
        table.check("MPI_Abi_get_version", code).map_err(silent)?;
        match major {
            VERSION => Ok(table),
            // The standard's answer of a library that has another than the standard's.
            -1 => Err(OF_ITS_OWN.to_owned()),
            _ => Err(format!(
                "has version {major}.{minor} of MPI's binary interface, and this is for {VERSION}"
            )),
        }
    }

    /// Which MPI this is, in its own words: the first line of them, without what pads it.
    pub(super) fn library_version(&self) -> Result<String, MpiError> {
        let text = self.about_itself()?;
        let first = text.lines().map(unpadded).find(|line| !line.is_empty());
        Ok(first.unwrap_or_else(|| "it does not say which".to_owned()))
    }

    /// All that it says of itself. It may be asked before MPI has begun.
    pub(super) fn about_itself(&self) -> Result<String, MpiError> {
        let mut text = vec![0_u8; MAX_LIBRARY_VERSION_STRING];
        let mut len = 0;
        // SAFETY: there is as much room as the standard says, and it may be called at any time.
        let code = unsafe { (self.functions.library_version)(text.as_mut_ptr().cast(), &mut len) };
        self.check("MPI_Get_library_version", code)?;
        text.truncate(usize::try_from(len).unwrap_or(0));
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Whether MPI has begun in this process, whoever has begun it.
    pub(super) fn has_begun(&self) -> Result<bool, MpiError> {
        let mut flag = 0;
        // SAFETY: it writes a number of this frame, and may be called at any time.
        let code = unsafe { (self.functions.initialized)(&mut flag) };
        self.check("MPI_Initialized", code)?;
        Ok(flag != 0)
    }

    /// Whether MPI has ended in this process.
    pub(super) fn has_ended(&self) -> Result<bool, MpiError> {
        let mut flag = 0;
        // SAFETY: it writes a number of this frame, and may be called at any time.
        let code = unsafe { (self.functions.finalized)(&mut flag) };
        self.check("MPI_Finalized", code)?;
        Ok(flag != 0)
    }

    /// Whether the program, which has begun MPI itself, has ended it: MPI ends whoever calls it then.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.is_guest && self.has_ended() != Ok(false)
    }

    /// Makes sure that MPI may be called by those who use it.
    #[inline]
    fn check_lives(&self) -> Result<(), MpiError> {
        if self.is_over() { Err(MpiError::new("MPI_Finalize", OVER)) } else { Ok(()) }
    }

    /// Begins MPI in this process, and has it return errors instead of ending the job.
    pub(super) fn begin(&self) -> Result<(), MpiError> {
        let mut level = 0;
        let (none, nothing) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the standard allows to give no arguments; the level is a number of this frame.
        let code =
            unsafe { (self.functions.init_thread)(none, nothing, THREAD_MULTIPLE, &mut level) };
        self.check("MPI_Init_thread", code)?;
        self.return_errors(WORLD)
    }

    /// Makes sure that several threads may call it at once.
    pub(super) fn check_threads(&self) -> Result<(), MpiError> {
        let mut level = 0;
        // SAFETY: it writes a number of this frame.
        let code = unsafe { (self.functions.query_thread)(&mut level) };
        self.check("MPI_Query_thread", code)?;
        match level {
            THREAD_MULTIPLE.. => Ok(()),
            _ => Err(MpiError::new(
                "beginning MPI",
                "it allows calls of one thread only: have it initialised with MPI_THREAD_MULTIPLE",
            )),
        }
    }

    /// Ends MPI in this process, for good.
    pub(super) fn end(&self) -> Result<(), MpiError> {
        // SAFETY: whoever calls MPI later gets an error of it.
        let code = unsafe { (self.functions.finalize)() };
        self.check("MPI_Finalize", code)
    }

    /// All processes that began MPI together.
    pub(super) fn world(&self) -> Result<Comm, MpiError> {
        self.comm(WORLD)
    }

    /// A new communicator of these ranks of all processes, this one among them, made by all of them with this
    /// tag. Waits for them.
    pub(super) fn among(&self, ranks: &[c_int], tag: c_int) -> Result<Comm, MpiError> {
        let Functions { comm_group, group_incl, group_free, comm_create_group, .. } =
            &self.functions;
        self.check_lives()?;
        let (mut all, mut some, mut comm) = (GROUP_NULL, GROUP_NULL, COMM_NULL);
        // SAFETY: it writes a handle of this frame.
        let code = unsafe { comm_group(WORLD, &mut all) };
        self.check("MPI_Comm_group", code)?;
        // SAFETY: the list is as long as it says, and the handle is of this frame.
        let code = unsafe { group_incl(all, ranks.len() as c_int, ranks.as_ptr(), &mut some) };
        let chosen = self.check("MPI_Group_incl", code);
        // SAFETY: the group was made above and is used no more.
        unsafe { group_free(&mut all) };
        chosen?;
        // SAFETY: it writes a handle of this frame.
        let code = unsafe { comm_create_group(WORLD, some, tag, &mut comm) };
        let made = self.check("MPI_Comm_create_group", code);
        // SAFETY: the group was made above and is used no more.
        unsafe { group_free(&mut some) };
        made?;
        self.return_errors(comm)?;
        self.comm(comm)
    }

    /// Lets go of a communicator that was [made](Self::among) and is used no more. What it is at goes on. The standard
    /// allows that this waits for the others to do the same.
    pub(super) fn free(&self, mut comm: Comm) -> Result<(), MpiError> {
        // SAFETY: the handle is of this frame; what it stands for MPI keeps for as long as it needs it.
        let code = unsafe { (self.functions.comm_free)(&mut comm.handle) };
        self.check("MPI_Comm_free", code)
    }

    /// Begins to send the first bytes of memory to a rank. If that is to be done only when the rank has begun to
    /// receive them, it can be known how much is on its way.
    pub(super) fn send(
        &'static self,
        comm: Comm,
        to: usize,
        class: Class,
        bytes: usize,
        mut memory: Memory,
        when_received: bool,
    ) -> Result<Pending, MpiError> {
        self.check_lives()?;
        let mut request = REQUEST_NULL;
        let (data, count) = (memory.send.of(bytes).as_ptr().cast(), bytes as Count);
        let send = match when_received {
            true => self.functions.send_synchronously,
            false => self.functions.send,
        };
        // SAFETY: there are so many bytes, which stay where they are until MPI is done: see `Pending`.
        let code =
            unsafe { send(data, count, BYTE, to as c_int, class.tag(), comm.handle, &mut request) };
        let pending = Pending::new(self, request, Task::Message { bytes, comes: false }, memory);
        self.check("MPI_Isend", code)?;
        Ok(pending)
    }

    /// Begins to receive the next message of a rank, or of any, if one has come of at most so many bytes.
    ///
    /// # Errors
    /// Of MPI; and when the message is longer.
    pub(super) fn receive(
        &'static self,
        comm: Comm,
        from: Option<usize>,
        class: Class,
        most: usize,
        memory: &mut Memory,
    ) -> Result<Option<Pending>, MpiError> {
        self.check_lives()?;
        let (mut flag, mut message) = (0, MESSAGE_NULL);
        let mut status = Status::default();
        let f = &self.functions;
        let (source, comm) = (from.map_or(ANY_SOURCE, |from| from as c_int), comm.handle);
        // SAFETY: it writes numbers and a handle of this frame.
        let code =
            unsafe { (f.probe)(source, class.tag(), comm, &mut flag, &mut message, &mut status) };
        self.check("MPI_Improbe", code)?;
        if flag == 0 {
            return Ok(None);
        }
        let mut count: Count = 0;
        // SAFETY: the status was written above.
        let code = unsafe { (f.get_count)(&status, BYTE, &mut count) };
        self.check("MPI_Get_count", code)?;
        let bytes = usize::try_from(count).ok().filter(|&bytes| bytes <= most);
        let Some(bytes) = bytes else {
            let text =
                format!("a message of {count} bytes, more than the {most} that are sent at once");
            return Err(MpiError::new("MPI_Improbe", text));
        };
        let mut memory = std::mem::take(memory);
        let (room, mut request) = (memory.receive.of(bytes).as_mut_ptr().cast(), REQUEST_NULL);
        // SAFETY: there is room for so many bytes, which stays where it is until MPI is done: see `Pending`.
        let code = unsafe { (f.receive)(room, count, BYTE, &mut message, &mut request) };
        let pending = Pending::new(self, request, Task::Message { bytes, comes: true }, memory);
        self.check("MPI_Imrecv", code)?;
        Ok(Some(pending))
    }

    fn comm(&self, handle: Handle) -> Result<Comm, MpiError> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: it writes a number of this frame.
        let code = unsafe { (self.functions.comm_rank)(handle, &mut rank) };
        self.check("MPI_Comm_rank", code)?;
        // SAFETY: it writes a number of this frame.
        let code = unsafe { (self.functions.comm_size)(handle, &mut size) };
        self.check("MPI_Comm_size", code)?;
        Ok(Comm { handle, me: rank as usize, world: size as usize })
    }

    /// Has a communicator return errors instead of ending the job.
    ///
    /// MPI has a handler for that, but sources differ in its number, and under the other one there is a handler that
    /// ends the process. One that does nothing has MPI return the error as well.
    fn return_errors(&self, comm: Handle) -> Result<(), MpiError> {
        let handler = match self.on_error.get() {
            Some(handler) => *handler,
            None => {
                let mut made = ERRHANDLER_NULL;
                // SAFETY: it writes a handle of this frame, and keeps a function that is always there.
                let code = unsafe { (self.functions.comm_create_errhandler)(be_quiet, &mut made) };
                self.check("MPI_Comm_create_errhandler", code)?;
                *self.on_error.get_or_init(|| made)
            }
        };
        // SAFETY: both are handles of MPI's.
        let code = unsafe { (self.functions.comm_set_errhandler)(comm, handler) };
        self.check("MPI_Comm_set_errhandler", code)
    }

    /// Has MPI get on with what it is at.
    pub(super) fn poke(&self, world: Comm) -> Result<(), MpiError> {
        let (mut flag, mut status) = (0, Status::default());
        let me = world.me as c_int;
        // SAFETY: it writes numbers of this frame. This process sends itself nothing, so there is nothing to find.
        let code = unsafe { (self.functions.look)(me, TAG, world.handle, &mut flag, &mut status) };
        self.check("MPI_Iprobe", code)
    }

    #[inline]
    fn check(&self, what: &'static str, code: c_int) -> Result<(), MpiError> {
        if code == SUCCESS { Ok(()) } else { Err(self.error(what, code)) }
    }

    #[cold]
    fn error(&self, what: &'static str, code: c_int) -> MpiError {
        let mut text = [0_u8; MAX_ERROR_STRING];
        let mut len = 0;
        let words = text.as_mut_ptr().cast::<c_char>();
        // SAFETY: there is room for the longest text that there is, and the length is a number of this frame.
        let told = unsafe { (self.functions.error_string)(code, words, &mut len) };
        let len = usize::try_from(len).unwrap_or(0).min(MAX_ERROR_STRING);
        match told {
            SUCCESS => MpiError::new(what, String::from_utf8_lossy(&text[..len]).trim_end()),
            _ => MpiError::new(what, format!("error {code}")),
        }
    }
}

impl Pending {
    fn new(table: &'static Table, request: Handle, task: Task, memory: Memory) -> Self {
        Self { table, request, lent: Some((task, memory)), failure: None }
    }

    /// Whether MPI is done with it. Whoever asks has MPI go on with all that it is at.
    ///
    /// # Errors
    /// When it has failed, however often it is asked: what it was lent stays with MPI.
    #[inline]
    pub(crate) fn is_done(&mut self) -> Result<bool, MpiError> {
        if self.request == REQUEST_NULL {
            return self.failure.clone().map_or(Ok(true), Err);
        }
        self.table.check_lives()?;
        let mut flag = 0;
        // SAFETY: the request is this one's, not done yet, and the flag is of this frame. No status is asked for.
        let code =
            unsafe { (self.table.functions.test)(&mut self.request, &mut flag, ptr::null_mut()) };
        if code != SUCCESS {
            return Err(self.fail(code));
        }
        Ok(flag != 0)
    }

    /// What it was lent, once it is done.
    ///
    /// # Panics
    /// When it is not, or has failed.
    pub(crate) fn into_memory(mut self) -> Memory {
        assert_eq!(self.request, REQUEST_NULL, "MPI is done with it");
        let (_, memory) = self.lent.take().expect("it was lent when it began");
        memory
    }

    /// How many bytes a message has.
    pub(crate) fn bytes(&self) -> usize {
        match &self.lent {
            Some((Task::Message { bytes, .. }, _)) => *bytes,
            _ => 0,
        }
    }

    /// Takes notice that it has failed. MPI forgets the request of what has ended so, as it does of what is done: it
    /// is never asked about it again.
    #[cold]
    fn fail(&mut self, code: c_int) -> MpiError {
        self.leave();
        self.request = REQUEST_NULL;
        self.failure.insert(self.table.error("MPI_Test", code)).clone()
    }

    /// Leaves what it was lent to MPI.
    fn leave(&mut self) {
        std::mem::forget(self.lent.take());
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.request != REQUEST_NULL {
            self.leave();
        }
    }
}

/// A line without the space in it that has it in columns, and what is behind its end in C.
fn unpadded(line: &str) -> String {
    let words: Vec<&str> = line.trim_end_matches('\0').split_whitespace().collect();
    words.join(" ")
}

/// Leaves it to MPI to return the error.
extern "C" fn be_quiet(_: *mut Handle, _: *mut c_int) {}

/// Has something done when the process exits, with its exit code and nothing more.
#[cfg(target_env = "gnu")]
pub(super) fn at_exit(act: extern "C" fn(c_int, *mut c_void)) {
    unsafe extern "C" {
        safe fn on_exit(act: extern "C" fn(c_int, *mut c_void), more: *mut c_void) -> c_int;
    }
    // If there is no room for it the process ends without.
    let _ = on_exit(act, ptr::null_mut());
}

/// The same with a C library that tells nobody the exit code: it is 0 then.
#[cfg(not(target_env = "gnu"))]
pub(super) fn at_exit(act: extern "C" fn(c_int, *mut c_void)) {
    static ACT: OnceLock<extern "C" fn(c_int, *mut c_void)> = OnceLock::new();
    extern "C" fn without_code() {
        if let Some(act) = ACT.get() {
            act(0, ptr::null_mut());
        }
    }
    unsafe extern "C" {
        safe fn atexit(act: extern "C" fn()) -> c_int;
    }
    if ACT.set(act).is_ok() {
        let _ = atexit(without_code);
    }
}

/// Tells whoever has started this process, by the descriptor that MPI uses for it, too, that it leaves MPI.
pub(super) fn take_leave(launcher: RawFd) -> io::Result<()> {
    // It comes from the environment, where anything may be.
    if launcher < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: it is none of the numbers that are no descriptor. It was inherited for this, and MPI, which uses it, has
    // not ended: it is open. If it were not, the system would say so.
    let launcher = unsafe { BorrowedFd::borrow_raw(launcher) };
    send(launcher, b"cmd=finalize\n", SendFlags::NOSIGNAL).map(drop).map_err(io::Error::from)
}

/// What one is told who comes too late to use what there was.
const OVER: &str = "the program has ended MPI: make calls, and drop groups, before that";
/// What is said of a library that has another interface than the standard's.
const OF_ITS_OWN: &str =
    "is an MPI with an interface of its own, not the standard's: name its libmpi_abi.so";

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_launcher_is_told_by_its_descriptor_and_no_other_number_is_taken_for_one() {
        let (mine, mut launchers) = UnixStream::pair().unwrap();
        take_leave(mine.as_raw_fd()).unwrap();
        drop(mine);
        let mut told = String::new();
        launchers.read_to_string(&mut told).unwrap();
        assert_eq!(told, "cmd=finalize\n");
        for none in [-1, RawFd::MIN] {
            assert_eq!(take_leave(none).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
