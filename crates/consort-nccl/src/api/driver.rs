//! The part of CUDA's driver that programs need beside NCCL, on the memory of this process: devices that are
//! all the same, memory, streams and events.
//!
//! It is what [`consort::device`] looks for, with the names and numbers of `libcuda.so.1`, and what candle's tensors
//! need to be there. Programs that launch kernels have no use for it.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint};

use crate::event::Event;
use crate::failure::{Failure, Result, guard};
use crate::memory::{self, Region};
use crate::raw::{Buffer, Handle, Out};
use crate::status::Status;
use crate::stream::Stream;

/// Exports functions of the driver. What went wrong can be read with `ncclGetLastError`.
macro_rules! driver {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $type),*) -> c_int {
            code(guard(stringify!($name), move || $body))
        }
    )*};
}

pub mod in_order;

driver! {
    /// Begins; there is nothing to begin with.
    fn cuInit(flags: c_uint) {
        if flags == 0 { Ok(()) } else { Err(Failure::argument(format!("flags are {flags}, not 0"))) }
    }

    /// How many devices there are.
    fn cuDeviceGetCount(count: Out<c_int>) {
        count.set("count", DEVICES)
    }

    /// A device by its number.
    fn cuDeviceGet(device: Out<c_int>, ordinal: c_int) {
        device.set("device", check(ordinal)?)
    }

    /// What a device is called.
    fn cuDeviceGetName(name: Out<c_char>, len: c_int, dev: c_int) {
        check(dev)?;
        let room = usize::try_from(len).unwrap_or(0);
        let text = NAME.to_bytes_with_nul();
        if room < text.len() {
            return Err(Failure::argument(format!("len is {len}, and the name has {}", text.len())));
        }
        text.iter().enumerate().try_for_each(|(at, &byte)| name.nth(at).set("name", byte as c_char))
    }

    /// The context that all of the process share.
    fn cuDevicePrimaryCtxRetain(pctx: Out<Handle>, dev: c_int) {
        pctx.set("pctx", Handle::new(CONTEXTS + check(dev)? as usize))
    }

    /// Gives it back.
    fn cuDevicePrimaryCtxRelease_v2(dev: c_int) {
        check(dev).map(drop)
    }

    /// Makes a context this thread's own.
    fn cuCtxSetCurrent(ctx: Handle) {
        check_context(ctx)?;
        CURRENT.set(ctx);
        Ok(())
    }

    /// Makes a context this thread's own, until it is popped.
    fn cuCtxPushCurrent_v2(ctx: Handle) {
        check_context(ctx)?;
        BEFORE.with_borrow_mut(|before| before.push(CURRENT.replace(ctx)));
        Ok(())
    }

    /// Gives the thread back the context that it had.
    fn cuCtxPopCurrent_v2(pctx: Out<Handle>) {
        let Some(before) = BEFORE.with_borrow_mut(Vec::pop) else {
            return Err(Failure::argument("no context was pushed on this thread"));
        };
        pctx.set("pctx", CURRENT.replace(before))
    }

    /// The context of this thread.
    fn cuCtxGetCurrent(pctx: Out<Handle>) {
        pctx.set("pctx", CURRENT.get())
    }

    /// As `consortStreamCreate`, in the context of this thread.
    fn cuStreamCreate(stream: Out<Handle>, flags: c_uint) {
        stream.check("stream")?;
        if flags > NON_BLOCKING {
            return Err(Failure::argument(format!("flags are {flags}, which no stream has")));
        }
        stream.set("stream", Stream::create(CURRENT.get())?)
    }

    /// As `consortStreamDestroy`.
    fn cuStreamDestroy_v2(stream: Handle) {
        Stream::destroy(stream)
    }

    /// As `consortStreamQuery`.
    fn cuStreamQuery(stream: Handle) {
        match Stream::find(stream)? {
            Some(stream) if !stream.is_idle()? => Err(Failure::in_progress()),
            _ => Ok(()),
        }
    }

    /// As `consortStreamSynchronize`.
    fn cuStreamSynchronize(stream: Handle) {
        Stream::find(stream)?.map_or(Ok(()), |stream| stream.synchronize())
    }

    /// Has what a stream is given from now on wait for an event.
    fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) {
        if flags != 0 {
            return Err(Failure::argument(format!("flags are {flags}, not 0")));
        }
        let stream = Stream::find(stream)?;
        Event::find(event)?.hold(stream.as_deref());
        Ok(())
    }

    /// Makes an event.
    fn cuEventCreate(event: Out<Handle>, _flags: c_uint) {
        event.check("event")?;
        event.set("event", Event::create())
    }

    /// Has an event happen when a stream has done all that it was given so far.
    fn cuEventRecord(event: Handle, stream: Handle) {
        let stream = Stream::find(stream)?;
        Event::find(event)?.record(stream.as_deref());
        Ok(())
    }

    /// Whether an event has happened: 0, or 600 if it has not.
    fn cuEventQuery(event: Handle) {
        if Event::find(event)?.has_happened()? { Ok(()) } else { Err(Failure::in_progress()) }
    }

    /// Takes an event from the program.
    fn cuEventDestroy_v2(event: Handle) {
        Event::destroy(event)
    }

    /// As `ncclMemAlloc`.
    fn cuMemAlloc_v2(dptr: Out<u64>, bytesize: usize) {
        dptr.check("dptr")?;
        if bytesize == 0 {
            return Err(Failure::argument("bytesize is 0"));
        }
        let start = memory::allocate(bytesize)?;
        dptr.set("dptr", start.expose_provenance() as u64)
    }

    /// As `ncclMemFree`, when the streams of this thread's context have done all that they were given so far.
    fn cuMemFree_v2(dptr: Buffer) {
        // What cannot be freed is told at once.
        memory::check(dptr)?;
        Stream::settle_all_of(CURRENT.get());
        memory::free(dptr)
    }

    /// Copies to memory of a device.
    fn cuMemcpyHtoD_v2(dst: Buffer, src: Buffer, bytes: usize) {
        copy(("dstDevice", dst), ("srcHost", src), bytes)
    }

    /// Copies from memory of a device.
    fn cuMemcpyDtoH_v2(dst: Buffer, src: Buffer, bytes: usize) {
        copy(("dstHost", dst), ("srcDevice", src), bytes)
    }

    /// Copies within memory of devices.
    fn cuMemcpyDtoD_v2(dst: Buffer, src: Buffer, bytes: usize) {
        copy(("dstDevice", dst), ("srcDevice", src), bytes)
    }

    /// Sets every byte of memory of a device.
    fn cuMemsetD8_v2(dst: Buffer, byte: c_uchar, bytes: usize) {
        Region::new("dstDevice", dst, bytes)?.target().fill(byte);
        Ok(())
    }
}

/// What an answer of the driver means.
#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorString(error: c_int, text: Out<*const c_char>) -> c_int {
    let words = match error {
        0 => c"no error",
        INVALID_VALUE => c"invalid argument",
        OUT_OF_MEMORY => c"out of memory",
        INVALID_DEVICE => c"invalid device ordinal",
        NOT_READY => c"device not ready",
        UNKNOWN => c"unknown error",
        _ => {
            let _ = text.set("pStr", std::ptr::null());
            return INVALID_VALUE;
        }
    };
    code(guard("cuGetErrorString", || text.set("pStr", words.as_ptr())))
}

fn check(device: c_int) -> Result<c_int> {
    if (0..DEVICES).contains(&device) {
        return Ok(device);
    }
    let text = format!("there is no device {device}: they are numbered from 0 to {}", DEVICES - 1);
    Err(Failure { status: NO_DEVICE, text })
}

fn copy(to: (&str, Buffer), from: (&str, Buffer), bytes: usize) -> Result<()> {
    let to = Region::new(to.0, to.1, bytes)?;
    to.target().copy_from(Region::new(from.0, from.1, bytes)?.source());
    Ok(())
}

fn check_context(context: Handle) -> Result<()> {
    let number = context.number();
    if context.is_null() || (CONTEXTS..CONTEXTS + DEVICES as usize).contains(&number) {
        return Ok(());
    }
    Err(Failure::argument(format!("ctx is {number:#x}, which is no context")))
}

/// The driver's number for how it went.
fn code(status: Status) -> c_int {
    match status {
        Status::SUCCESS => 0,
        Status::IN_PROGRESS => NOT_READY,
        Status::INVALID_ARGUMENT => INVALID_VALUE,
        Status::SYSTEM_ERROR => OUT_OF_MEMORY,
        NO_DEVICE => INVALID_DEVICE,
        _ => UNKNOWN,
    }
}

thread_local! {
    /// The context of this thread.
    static CURRENT: Cell<Handle> = const { Cell::new(Handle::NULL) };
    /// Those that it had before.
    static BEFORE: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

/// As many as a host has at the most.
const DEVICES: c_int = 16;
const NAME: &CStr = c"consort (host memory)";
/// No stream or event has such a number.
const CONTEXTS: usize = 0x7000_0000_0000;
const NON_BLOCKING: c_uint = 1;
const INVALID_VALUE: c_int = 1;
const OUT_OF_MEMORY: c_int = 2;
const INVALID_DEVICE: c_int = 101;
/// NCCL has no result for it, so none of its calls says this.
const NO_DEVICE: Status = Status(INVALID_DEVICE);
const NOT_READY: c_int = 600;
const UNKNOWN: c_int = 999;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_there_is_not_is_told_by_a_number_of_its_own() {
        for ordinal in [-1, DEVICES] {
            let (mut device, mut context) = (-7, Handle::new(7));
            // SAFETY: it lives until the call has returned.
            let to = unsafe { Out::from_raw(&mut device) };
            assert_eq!(cuDeviceGet(to, ordinal), INVALID_DEVICE);
            // SAFETY: as above.
            let to = unsafe { Out::from_raw(&mut context) };
            assert_eq!(cuDevicePrimaryCtxRetain(to, ordinal), INVALID_DEVICE);
            // SAFETY: as above.
            let to = unsafe { Out::from_raw(&mut device) };
            assert_eq!(in_order::cuDeviceGetAttribute(to, 1, ordinal), INVALID_DEVICE);
            assert_eq!((device, context), (-7, Handle::new(7)));
        }
    }

    #[test]
    fn every_answer_has_a_text() {
        let statuses = (Status::SUCCESS.0..=Status::TIMEOUT.0).map(Status).chain([NO_DEVICE]);
        for status in statuses {
            let mut text = std::ptr::null();
            // SAFETY: it lives until the call has returned.
            assert_eq!(cuGetErrorString(code(status), unsafe { Out::from_raw(&mut text) }), 0);
            assert!(!text.is_null(), "{status:?}");
        }
    }
}
