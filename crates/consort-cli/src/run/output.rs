//! What the ranks write, and where it goes.

mod files;
mod lines;
mod prefix;
mod screen;
mod tail;
mod terminal;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::Duration;

use super::event::{Event, Inbox};
use super::placement::Placement;
use files::LogFiles;
use terminal::Terminal;

/// The output of the ranks of this host, from one start to their end.
#[derive(Debug)]
pub(crate) enum Output {
    /// To our own terminal, behind the rank's number.
    Terminal(Terminal),
    /// To files.
    Files(LogFiles),
}

impl Output {
    /// To files under `log_dir` if there is one, to the terminal otherwise.
    pub(crate) fn new(log_dir: Option<&Path>, place: &Placement) -> io::Result<Self> {
        Ok(match log_dir {
            Some(log_dir) => Self::Files(LogFiles::new(log_dir, &place.job, place.epoch)?),
            None => Self::Terminal(Terminal::new(place.world)),
        })
    }

    /// What the next rank of this host writes to: its standard output and its standard error.
    pub(crate) fn open(&mut self, rank: u32) -> io::Result<[OwnedFd; 2]> {
        Ok(match self {
            Self::Terminal(terminal) => terminal.open(rank)?.map(OwnedFd::from),
            Self::Files(files) => files.create(rank)?.map(OwnedFd::from),
        })
    }

    /// All ranks have their streams.
    pub(crate) fn start(&mut self, events: Sender<Event>) -> io::Result<()> {
        match self {
            Self::Terminal(terminal) => terminal.start(events),
            Self::Files(_) => Ok(()),
        }
    }

    /// All ranks have ended: afterwards what they wrote is where it belongs, unless its reader
    /// takes longer than `patience`.
    ///
    /// # Errors
    /// When some of it could not be written.
    pub(crate) fn finish(
        &mut self,
        patience: Option<Duration>,
        inbox: &mut Inbox,
    ) -> io::Result<()> {
        match self {
            Self::Terminal(terminal) => terminal.finish(patience, inbox),
            Self::Files(_) => Ok(()),
        }
    }

    /// The last lines of a rank.
    pub(crate) fn tail(&self, rank: u32, local_rank: u32) -> Vec<String> {
        match self {
            Self::Terminal(terminal) => terminal.tail(local_rank),
            Self::Files(files) => files.tail(rank),
        }
    }

    /// Where the output is, if not on the terminal.
    pub(crate) fn directory(&self) -> Option<&Path> {
        match self {
            Self::Terminal(_) => None,
            Self::Files(files) => Some(files.directory()),
        }
    }

    /// Where a rank may leave the reason of its failure.
    pub(crate) fn error_file(&self, rank: u32) -> Option<PathBuf> {
        match self {
            Self::Terminal(_) => None,
            Self::Files(files) => Some(files.error_file(rank)),
        }
    }
}
