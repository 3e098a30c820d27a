//! Where ranks and the first process leave each other notes: files in one directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::hosts::Address;
use crate::scratch::write_whole;

/// The files of one job. Every note is written once and whole; readers look until it is there.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    dir: PathBuf,
}

/// A note that a rank leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Note {
    /// The rank has found its call.
    Begun,
    /// What its closure returned.
    Result,
    /// What its closure said when it panicked.
    Panic,
}

impl Layout {
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// Makes what the ranks find when they start.
    pub(crate) fn prepare(&self, world: u32, addresses: &[Address]) {
        fs::create_dir(self.shared()).expect("the scratch directory can be written");
        write(&self.dir.join("world"), &(world, addresses));
    }

    pub(crate) fn world(&self) -> (u32, Vec<Address>) {
        read(&self.dir.join("world")).expect("it is written before the first rank starts")
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// A directory for the test's own files.
    pub(crate) fn shared(&self) -> PathBuf {
        self.dir.join("shared")
    }

    pub(crate) fn output(&self, rank: u32) -> PathBuf {
        self.dir.join(format!("rank-{rank}.output"))
    }

    pub(crate) fn leave<T: Serialize>(&self, rank: u32, note: Note, content: &T) {
        write(&self.note(rank, note), content);
    }

    pub(crate) fn find<T: DeserializeOwned>(&self, rank: u32, note: Note) -> Option<T> {
        read(&self.note(rank, note))
    }

    pub(crate) fn reach(&self, rank: u32, point: &str) {
        write(&self.point(rank, point), &());
    }

    pub(crate) fn has_reached(&self, rank: u32, point: &str) -> bool {
        self.point(rank, point).exists()
    }

    pub(crate) fn tell<T: Serialize>(&self, name: &str, content: &T) {
        write(&self.message(name), content);
    }

    pub(crate) fn is_told(&self, name: &str) -> bool {
        self.message(name).exists()
    }

    pub(crate) fn await_told<T: DeserializeOwned>(&self, name: &str) -> T {
        loop {
            if let Some(content) = read(&self.message(name)) {
                return content;
            }
            thread::sleep(GLANCE);
        }
    }

    fn note(&self, rank: u32, note: Note) -> PathBuf {
        let name = match note {
            Note::Begun => "begun",
            Note::Result => "result",
            Note::Panic => "panic",
        };
        self.dir.join(format!("rank-{rank}.{name}"))
    }

    fn point(&self, rank: u32, point: &str) -> PathBuf {
        self.dir.join(format!("rank-{rank}.at-{}", file_name(point)))
    }

    fn message(&self, name: &str) -> PathBuf {
        self.dir.join(format!("told-{}", file_name(name)))
    }
}

fn write<T: Serialize + ?Sized>(path: &Path, content: &T) {
    let bytes = postcard::to_stdvec(content).expect("the value has a fixed form");
    write_whole(path, &bytes).expect("the scratch directory can be written");
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let bytes = fs::read(path).ok()?;
    Some(postcard::from_bytes(&bytes).expect("it is read as the type it was written as"))
}

/// Names are free text; a file name is not.
fn file_name(name: &str) -> String {
    name.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// How often to look for a note. Notes are rare, so looking is cheaper than being told.
pub(crate) const GLANCE: Duration = Duration::from_millis(2);
