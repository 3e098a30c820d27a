//! How bytes get from one rank's memory to another's.
#![allow(unsafe_code, reason = "only here is it known how long memory of a window is there")]

use std::fmt::Display;
use std::time::Duration;

use consort_sys::dtype::Dtype;
use consort_sys::view::{Source, Space, Target};

use super::super::context::on_device;
use super::super::{Wait, lock};
use super::making::STAGE;
use super::{Side, wait};
use crate::device::{Block, Event};
use crate::error::Result;
use crate::nccl::{Signals, Stream};

impl Side {
    /// A name for this rank's bytes.
    pub(crate) fn own(&self) -> Target<'_> {
        self.view(self.own.part(0, self.bytes).expect("there are as many"))
    }

    /// Copies bytes to a rank's, from a place on. They are there when that rank has heard of what is
    /// [told](Self::ring) it afterwards.
    ///
    /// # Panics
    /// When it has not so many.
    pub(crate) fn put(
        &self,
        call: &dyn Display,
        to: usize,
        at: usize,
        bytes: Source<'_>,
        patience: Duration,
    ) -> Result<()> {
        let wait = wait(call, patience);
        if bytes.is_empty() {
            return Ok(());
        }
        if let Some(there) = self.near(to, at, bytes.len()) {
            return self.copy(there, bytes, &wait);
        }
        if self.is_own(bytes) {
            return self.send(to, at, bytes, &wait);
        }
        // NCCL reads only what it knows, so the rest takes the way through room that it does.
        let _alone = lock(&self.stage);
        for start in (0..bytes.len()).step_by(STAGE) {
            let part = bytes.slice(start..bytes.len().min(start + STAGE));
            let stage = self.own.part(self.own.len() - STAGE, part.len());
            let stage = self.view(stage.expect("a part is not longer than the room for it"));
            self.copy(stage, part, &wait)?;
            self.send(to, at + start, stage.into(), &wait)?;
        }
        Ok(())
    }

    /// Copies bytes of a rank that this device reaches, from a place on.
    ///
    /// # Panics
    /// When it has not so many, or is not reached.
    pub(crate) fn get(
        &self,
        call: &dyn Display,
        from: usize,
        at: usize,
        bytes: Target<'_>,
        patience: Duration,
    ) -> Result<()> {
        let there = self.near(from, at, bytes.len()).expect("it is reached");
        self.copy(bytes, there.into(), &wait(call, patience))
    }

    /// Waits until so many puts of a rank have come, as many as it has made.
    pub(crate) fn receive(
        &self,
        call: &dyn Display,
        from: usize,
        puts: u64,
        patience: Duration,
    ) -> Result<()> {
        let (wait, engine) = (wait(call, patience), &*self.engine);
        let mut taken = lock(&self.taken[from]);
        while *taken < puts {
            let coming = (puts - *taken).min(i32::MAX as u64);
            let signals =
                Signals { count: coming as u32, peer: from as u32, signal: 0, context: 0 };
            let call = || self.comm().wait_signal(&[signals], self.stream());
            let awaited = engine.watched(&wait.until, || on_device(&engine.device, call));
            awaited.map_err(|error| engine.fail(&error))?;
            self.finish(&wait)?;
            *taken += coming;
        }
        Ok(())
    }

    /// Waits until the device has done all that its default stream was given.
    pub(super) fn settle(&self, wait: &Wait<'_>) -> Result<()> {
        let done = Event::of_default(&self.engine.device);
        let done = done.map_err(|error| self.engine.fail(&error))?;
        self.engine.watch(self.comm(), &done, wait)
    }

    fn copy(&self, to: Target<'_>, from: Source<'_>, wait: &Wait<'_>) -> Result<()> {
        self.engine.device.copy(to, from).map_err(|error| self.engine.fail(&error))?;
        self.settle(wait)
    }

    /// Has NCCL put some of what it knows to a rank's bytes, and counts that.
    fn send(&self, to: usize, at: usize, bytes: Source<'_>, wait: &Wait<'_>) -> Result<()> {
        let (engine, estate) = (&*self.engine, self.estate());
        let mut sent = lock(&self.sent[to]);
        let ready = Event::of_default(&engine.device).map_err(|error| engine.fail(&error))?;
        estate.stream.wait_for(&ready).map_err(|error| engine.fail(&error))?;
        let (dtype, peer, window, signal) = (Dtype::U8, to as u32, estate.window(), (0, 0));
        let stream = self.stream();
        let put = || {
            // SAFETY: what is read is memory of the device, and is left alone until the stream is done with it, for
            // which it is waited below. What is written is the peer's, which expects it there at any time.
            unsafe { estate.comm.put_signal(bytes, dtype, peer, window, at, signal, stream) }
        };
        let put = engine.watched(&wait.until, || on_device(&engine.device, put));
        put.map_err(|error| engine.fail(&error))?;
        *sent += 1;
        self.finish(wait)
    }

    /// Waits until the stream has done all that it was given.
    fn finish(&self, wait: &Wait<'_>) -> Result<()> {
        let done = self.estate().stream.record();
        let done = done.map_err(|error| self.engine.fail(&error))?;
        self.engine.watch(self.comm(), &done, wait)
    }

    fn stream(&self) -> Stream<'_> {
        // SAFETY: it is the device's, and lives as long as this.
        unsafe { Stream::from_raw(self.estate().stream.as_raw()) }
    }

    /// A rank's bytes, if this device reaches them.
    fn near(&self, rank: usize, at: usize, len: usize) -> Option<Target<'_>> {
        let block = self.near[rank]?;
        Some(self.view(block.part(at, len).expect("it was looked at whether there are so many")))
    }

    /// Whether bytes are this rank's own.
    fn is_own(&self, bytes: Source<'_>) -> bool {
        let (start, first) = (bytes.as_ptr().addr() as u64, self.own.address());
        bytes.space() == Space::Device(self.engine.device.number())
            && start >= first
            && start + bytes.len() as u64 <= first + self.own.len() as u64
    }

    /// A name for some of the memory.
    fn view(&self, block: Block) -> Target<'_> {
        // SAFETY: it is this rank's, or a peer's where the window has it on this device. Both are there until this is
        // dropped. Copies from and to the peer's are waited for; this rank's are not given back before the default
        // stream has done what it was given (`Estate`).
        unsafe { block.target(self.engine.device.number()) }
    }
}
