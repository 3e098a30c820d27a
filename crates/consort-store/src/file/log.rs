//! The log in the file: reading what others wrote, adding one's own.
//!
//! Every method here needs the lock on the file, those that write the exclusive one.

mod shorten;

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

use rustix::fs::NFS_SUPER_MAGIC;

use super::lock::{LockFile, Mode};
use super::record::{self, Header, HeaderFault, Stored};
use super::replay::{Fed, Replay};
use crate::request::Request;
use crate::table::{Outcome, Table};

/// One process's knowledge of the log.
#[derive(Debug)]
pub(crate) struct Log {
    replay: Replay,
    life: u64,
    /// Whether the file system keeps a full disk to itself until it is asked.
    ask_after_writing: bool,
    /// Shortening failed; not to be tried again before the log has come here.
    shorten_after: u64,
}

/// What is wrong with the file, and what to do, for the caller to put the path to it.
pub(crate) type Fault = String;

impl Log {
    /// Starts the file anew, whatever was in it.
    pub(crate) fn create(file: &File) -> Result<Self, Fault> {
        let random = |e| format!("cannot draw a random number to mark it with: {e}");
        let header = Header { life: getrandom::u64().map_err(random)?, start: FIRST };
        file.set_len(0).map_err(|e| trouble("empty", &e))?;
        // It may have been made beforehand, for all to read.
        file.set_permissions(Permissions::from_mode(0o600)).map_err(|e| trouble("guard", &e))?;
        file.write_all_at(&header.bytes(), 0).map_err(|e| {
            let _ = file.set_len(0);
            trouble("write", &e)
        })?;
        Ok(Self::at(file, header))
    }

    /// Joins those who use the file already.
    pub(crate) fn join(file: &File) -> Result<Self, Fault> {
        read_header(file).map(|header| Self::at(file, header))
    }

    fn at(file: &File, header: Header) -> Self {
        let is_nfs = |found: rustix::fs::StatFs| found.f_type == NFS_SUPER_MAGIC;
        Self {
            replay: Replay::from(header.start),
            life: header.life,
            ask_after_writing: rustix::fs::fstatfs(file).is_ok_and(is_nfs),
            shorten_after: 0,
        }
    }

    /// Takes in what others have written, and says how long the file is. With the exclusive lock
    /// held, what a dead writer left unfinished is removed.
    pub(crate) fn catch_up(&mut self, data: &LockFile, mode: Mode) -> Result<u64, Fault> {
        let file = data.file();
        let end = self.look(file)?;
        let mut piece = PIECE;
        while self.replay.position < end {
            let position = self.replay.position;
            let rest = end - position;
            let mut bytes = vec![0; usize::try_from(rest).map_or(piece, |rest| rest.min(piece))];
            file.read_exact_at(&mut bytes, position).map_err(|e| trouble("read", &e))?;
            match self.replay.feed(&bytes, rest) {
                Ok(Fed::Whole) => break,
                Ok(Fed::Needs(wanted)) => piece = wanted.max(PIECE),
                Ok(Fed::Torn) if mode == Mode::Exclusive => return self.cut_off(data, end),
                Ok(Fed::Torn) => break,
                Err(damage) => {
                    return Err(format!(
                        "it is damaged at byte {}: {}. Something other than a store has written \
                         to it; end the processes that use it, delete it and start them again",
                        self.replay.position, damage.0
                    ));
                }
            }
        }
        Ok(end)
    }

    /// Carries out a request, and writes it down if it changed something.
    pub(crate) fn apply(&mut self, file: &File, request: &Request<'_>) -> Result<Outcome, Fault> {
        let before = self.replay.table.changes();
        let outcome = self.replay.table.apply(request);
        if self.replay.table.changes() != before {
            self.write_down(file, request)?;
        }
        Ok(outcome)
    }

    /// Forgets everything: the next look reads the log from its start.
    pub(crate) fn forget(&mut self) {
        self.replay = Replay::from(0);
    }

    pub(crate) fn table(&self) -> &Table {
        &self.replay.table
    }

    /// Whether the file is still the one it was, and how long it is.
    fn look(&mut self, file: &File) -> Result<u64, Fault> {
        let metadata = file.metadata().map_err(|e| trouble("look at", &e))?;
        if metadata.nlink() == 0 {
            return Err("somebody removed it while it was in use; start the job again".to_owned());
        }
        let header = read_header(file)?;
        if header.life != self.life || metadata.len() < header.start.max(self.replay.position) {
            return Err("somebody emptied it while it was in use; start the job again".to_owned());
        }
        if header.start > self.replay.position {
            self.replay = Replay::from(header.start);
        }
        self.replay.started_at(header.start);
        Ok(metadata.len())
    }

    fn cut_off(&self, data: &LockFile, end: u64) -> Result<u64, Fault> {
        let position = self.replay.position;
        data.file().set_len(position).map_err(|e| trouble("remove a torn record from", &e))?;
        tracing::warn!(
            "store file {}: a process died while it wrote; removed the {} bytes of its unfinished \
             record at byte {position}",
            data.path().display(),
            end - position
        );
        Ok(position)
    }

    fn write_down(&mut self, file: &File, request: &Request<'_>) -> Result<(), Fault> {
        let mut record = Vec::new();
        record::encode(&Stored::Change(request.clone()), &mut record);
        self.add(file, &record).map_err(|e| {
            // The table is ahead of the log.
            self.forget();
            format!("{}; nothing was changed", trouble("write", &e))
        })
    }

    /// Writes at the end, all or nothing.
    fn add(&mut self, file: &File, bytes: &[u8]) -> io::Result<()> {
        let end = self.replay.position;
        if let Err(e) = file.write_all_at(bytes, end).and_then(|()| self.ask(file)) {
            // If even this fails, what was written is torn, and the next writer removes it.
            let _ = file.set_len(end);
            return Err(e);
        }
        self.replay.position += bytes.len() as u64;
        Ok(())
    }

    /// Whether what was written has found its place.
    fn ask(&self, file: &File) -> io::Result<()> {
        if self.ask_after_writing { file.sync_data() } else { Ok(()) }
    }
}

/// Checks that what is in the file may be thrown away, since it is nothing or was a store's, and
/// says how much it is.
pub(crate) fn may_be_emptied(file: &File) -> Result<u64, Fault> {
    let mut bytes = [0; Header::SIZE];
    let length = read_up_to(file, &mut bytes).map_err(|e| trouble("read", &e))?;
    if !Header::may_begin_with(&bytes[..length]) {
        return Err(NOT_A_STORE.to_owned());
    }
    file.metadata().map(|found| found.len()).map_err(|e| trouble("look at", &e))
}

fn read_header(file: &File) -> Result<Header, Fault> {
    let mut bytes = [0; Header::SIZE];
    let length = read_up_to(file, &mut bytes).map_err(|e| trouble("read", &e))?;
    if length < bytes.len() {
        return Err("somebody emptied it while it was in use; start the job again".to_owned());
    }
    Header::parse(&bytes).map_err(|fault| match fault {
        HeaderFault::NotAStore => NOT_A_STORE.to_owned(),
        HeaderFault::Version(theirs) => format!(
            "it is used by processes with another version of consort (format {theirs}); use one \
             version for the whole job"
        ),
        HeaderFault::Damaged => {
            "its header is damaged; end the processes that use it, delete it and start them again"
                .to_owned()
        }
    })
}

fn read_up_to(file: &File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(length)
}

fn trouble(doing: &str, e: &io::Error) -> Fault {
    format!("cannot {doing} it: {e}")
}

const NOT_A_STORE: &str = "it is not a store's file, and is left as it is; give another path";
const FIRST: u64 = Header::SIZE as u64;
/// How much is read or written at a time, unless one record is larger.
const PIECE: usize = 256 << 10;

#[cfg(test)]
mod tests;
