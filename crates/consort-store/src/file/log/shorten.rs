//! Keeping the log short, in two turns.
//!
//! A writer that finds it long adds a snapshot at its end: a beginning, the parts of the table, an
//! end. Whoever comes next as a writer and has seen the end moves the start in the header, in one
//! small write, to the snapshot's beginning, and gives the space before it back. Until the start
//! moves nobody depends on the snapshot, so it may be unfinished; and when it moves the snapshot
//! has been through an unlock, which on network file systems means that it has reached the server.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::FallocateFlags;

use super::{FIRST, Log, PIECE};
use crate::file::lock::LockFile;
use crate::file::record::{self, Header, Stored};
use crate::table::Table;

impl Log {
    /// Moves the start to the last snapshot, or adds a snapshot when the log has become long.
    /// Nothing depends on it, so that it may fail.
    pub(crate) fn shorten(&mut self, data: &LockFile) {
        if self.replay.position < self.shorten_after {
            return;
        }
        let result = match self.replay.later_start() {
            Some(start) => self.move_start(data.file(), start),
            None if self.is_long() => self.add_snapshot(data.file()),
            None => Ok(()),
        };
        if let Err(e) = result {
            self.shorten_after = self.replay.position + LONG;
            let path = data.path().display();
            tracing::warn!("store file {path} cannot be shortened and goes on growing: {e}");
        }
    }

    fn is_long(&self) -> bool {
        let live = self.replay.table.held() as u64;
        let length = self.replay.length();
        length > LONG && length > 4 * live
    }

    fn add_snapshot(&mut self, file: &File) -> io::Result<()> {
        let begin = self.replay.position;
        let written = write_snapshot(file, begin, &self.replay.table)
            .and_then(|end| self.ask(file).map(|()| end));
        match written {
            Ok(end) => {
                self.replay.position = end;
                self.replay.ends_with_snapshot(begin);
            }
            Err(_) => file.set_len(begin)?,
        }
        written.map(drop)
    }

    fn move_start(&mut self, file: &File, start: u64) -> io::Result<()> {
        let header = Header { life: self.life, start };
        file.write_all_at(&header.place(), Header::PLACE)?;
        self.replay.started_at(start);
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Not every file system can; then the space is given back when the file is removed.
        let _ = rustix::fs::fallocate(file, hole, FIRST, start - FIRST);
        Ok(())
    }
}

/// Writes the whole snapshot, from `position` on, and says where it ends.
fn write_snapshot(file: &File, mut position: u64, table: &Table) -> io::Result<u64> {
    let mut bytes = Vec::new();
    record::encode(&Stored::Begin, &mut bytes);
    for part in table.parts() {
        record::encode(&Stored::Part(part), &mut bytes);
        if bytes.len() >= PIECE {
            file.write_all_at(&bytes, position)?;
            position += bytes.len() as u64;
            bytes.clear();
        }
    }
    record::encode(&Stored::End, &mut bytes);
    file.write_all_at(&bytes, position)?;
    Ok(position + bytes.len() as u64)
}

/// A shorter log is not worth a snapshot.
const LONG: u64 = 1 << 20;
