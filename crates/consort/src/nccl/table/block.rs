//! Memory of NCCL's making.

use std::ptr::{self, NonNull};

use super::{Answer, Code, Table};

/// Memory of a device. It is given back when it is dropped.
#[derive(Debug)]
pub(in super::super) struct Block {
    start: NonNull<u8>,
    len: usize,
    table: &'static Table,
    /// Whose it is: a child that was forked from it must not give it back.
    process: u32,
}

// SAFETY: it is memory, which no thread is special to.
unsafe impl Send for Block {}
// SAFETY: nothing here looks into it.
unsafe impl Sync for Block {}

impl Block {
    pub(in super::super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(in super::super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        // SAFETY: it came from there, and nobody uses it any more.
        let answer = unsafe { self.table.mem_free(self.start.as_ptr().cast()) };
        if answer != Ok(0) {
            tracing::warn!("{} bytes of NCCL's could not be given back: {answer:?}", self.len);
        }
    }
}

impl Table {
    /// Memory of the current device.
    pub(in super::super) fn allocate(&'static self, len: usize) -> Answer<(Code, Option<Block>)> {
        let mut start = ptr::null_mut();
        // SAFETY: the place for the answer is there.
        let code = Code(unsafe { self.mem_alloc(&mut start, len) }?);
        let start = NonNull::new(start.cast()).filter(|_| code == Code::SUCCESS);
        let process = std::process::id();
        Ok((code, start.map(|start| Block { start, len, table: self, process })))
    }
}
