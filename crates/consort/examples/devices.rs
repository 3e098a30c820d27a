//! Numbers on devices: a call on the memory of GPUs, which NCCL carries out.
//!
//! The group is the same as for numbers of the host. Which engine carries out a call follows from where
//! its memory lies.
//!
//! On a machine without a GPU, `libconsort_nccl.so` is both CUDA's driver and NCCL, on the host's memory:
//!
//! ```text
//! cargo build -p consort --example devices
//! cargo build -p consort-nccl
//! library=$PWD/target/debug/libconsort_nccl.so
//! export CONSORT_NCCL_LIBRARY=$library CONSORT_CUDA_LIBRARY=$library
//! cargo run --bin consort -- run --backend nccl -n 2 -- target/debug/examples/devices
//! ```

use std::error::Error;

use consort::device::{Driver, calls};
use consort::{Dtype, ReduceOp, engines};

fn main() -> Result<(), Box<dyn Error>> {
    let group = consort::init()?;
    let (rank, world) = (group.rank().get(), group.world() as u32);

    // Ranks of a host take a device each. Its driver is looked for now, and where there is none the
    // error says what to do.
    let device = Driver::load()?.device(group.local_rank() as u16)?;

    // Every rank has other numbers. The program cannot touch the device's memory: bytes are copied.
    let numbers = (0..COUNT).map(|place| 1000 * rank + place);
    let bytes: Vec<u8> = numbers.flat_map(u32::to_ne_bytes).collect();
    let mut memory = device.allocate(bytes.len())?;
    memory.write(0, &bytes)?;

    // The call owns the memory until `wait` gives it back. By the first call of this kind the ranks tell
    // each other which device each has, and make a communicator of NCCL's.
    let work = group.call_async(calls::all_reduce(memory, Dtype::U32, ReduceOp::Sum))?;
    let memory = work.wait()?.output;

    // Everyone has the sums now, on its own device.
    let mut bytes = vec![0; memory.len()];
    memory.read(0, &mut bytes)?;
    let sums =
        bytes.chunks_exact(4).map(|sum| u32::from_ne_bytes([sum[0], sum[1], sum[2], sum[3]]));
    let of_ranks = 1000 * (0..world).sum::<u32>();
    if !sums.eq((0..COUNT).map(|place| of_ranks + world * place)) {
        return Err("these are not the sums of all ranks' numbers".into());
    }

    // Who did it?
    let number = group.device_in_use()?.ok_or("no device was used")?;
    let (name, nccl) = (device.name()?, engines::nccl()?);
    println!(
        "rank {rank} of {world}: sums are right, on device {number}, {name}, by NCCL {}",
        nccl.version
    );
    Ok(())
}

const COUNT: u32 = 1 << 20;
