//! What other users of CUDA's driver ask it for beside collectives: memory that is moved in the order of streams.
//! It is what candle's tensors need, through cudarc.

use std::ffi::{c_int, c_uchar, c_uint};

use super::{check, code, copy};
use crate::failure::{Failure, Result, guard};
use crate::memory::Region;
use crate::order::Order;
use crate::raw::{Buffer, Handle, Out};
use crate::stream::Stream;

driver! {
    /// What a device can do beyond what is here: nothing.
    fn cuDeviceGetAttribute(pi: Out<c_int>, attrib: c_int, dev: c_int) {
        check(dev)?;
        if attrib <= 0 {
            return Err(Failure::argument(format!("attrib is {attrib}, which no device has")));
        }
        pi.set("pi", 0)
    }

    /// Waits for all streams.
    fn cuCtxSynchronize() {
        Stream::synchronize_all()
    }

    /// Copies to memory of a device, from memory that may be used again when this returns.
    fn cuMemcpyHtoDAsync_v2(dst: Buffer, src: Buffer, bytes: usize, stream: Handle) {
        settle(stream)?;
        copy(("dstDevice", dst), ("srcHost", src), bytes)
    }

    /// Copies from memory of a device, to memory that may be read when this returns.
    fn cuMemcpyDtoHAsync_v2(dst: Buffer, src: Buffer, bytes: usize, stream: Handle) {
        settle(stream)?;
        copy(("dstHost", dst), ("srcDevice", src), bytes)
    }

    /// Copies within memory of devices, when the stream comes to it.
    fn cuMemcpyDtoDAsync_v2(dst: Buffer, src: Buffer, bytes: usize, stream: Handle) {
        let to = Region::new("dstDevice", dst, bytes)?;
        let from = Region::new("srcDevice", src, bytes)?;
        put(stream, move || to.target().copy_from(from.source()))
    }

    /// Sets every byte of memory of a device, when the stream comes to it.
    fn cuMemsetD8Async(dst: Buffer, byte: c_uchar, bytes: usize, stream: Handle) {
        let all = Region::new("dstDevice", dst, bytes)?;
        put(stream, move || all.target().fill(byte))
    }

    /// How a stream was made.
    fn cuStreamGetFlags(stream: Handle, flags: Out<c_uint>) {
        let own = Stream::find(stream)?.is_some();
        flags.set("flags", c_uint::from(own))
    }
}

/// Has a stream do something, or does it at once where there is none.
fn put(stream: Handle, what: impl FnOnce() + Send + 'static) -> Result<()> {
    match Stream::find(stream)? {
        Some(stream) => stream.push(&Order::take(), move || {
            what();
            Ok(())
        }),
        None => what(),
    }
    Ok(())
}

/// Waits until a stream has done all that it was given.
fn settle(stream: Handle) -> Result<()> {
    Stream::find(stream)?.map_or(Ok(()), |stream| stream.synchronize())
}
