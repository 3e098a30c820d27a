//! Where the ranks of this job leave their records.

use std::cell::OnceCell;
use std::path::Path;

use super::event::Inbox;
use super::notice::{last_words, notice};
use crate::records::{self, Folder};

/// The job's folder, once the job has a name.
#[derive(Debug, Default)]
pub(crate) struct Records {
    folder: OnceCell<Option<Folder>>,
}

impl Records {
    /// Makes the folder, if it is not there. The job runs without it, too.
    pub(crate) fn open(&self, job: &str) {
        self.folder.get_or_init(|| {
            let made = Folder::open(&records::base(), job);
            let complain = |error: &_| notice(format_args!("ranks leave no records: {error}"));
            made.inspect_err(complain).ok()
        });
    }

    /// Where it is.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.folder.get()?.as_ref().map(Folder::path)
    }

    /// Removes it if the job went well, otherwise says how to look into it.
    pub(crate) fn close(&mut self, went_well: bool, inbox: &mut Inbox) {
        let folder = self.folder.take().flatten();
        if let Some(job) = folder.and_then(|folder| folder.close(went_well)) {
            last_words(format_args!("consort trace {job} shows what the ranks did last"), inbox);
        }
    }
}
