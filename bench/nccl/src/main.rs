//! What NCCL's C API on CPU memory costs: the same calls by `libconsort_nccl.so`, as a program in C makes them, by a
//! group, and by MPI where there is one, in the same processes and on the same memory, in turn.

mod mpi;
mod nccl;
mod point;
mod timing;

use consort::{Group, Result};

use mpi::Mpi;
use nccl::Nccl;
use point::{Buffers, OPERATIONS, Operation};

fn main() -> Result<()> {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let group = consort::init()?;
    let (nccl, mpi) = (Nccl::meet(&group)?, Mpi::find());
    if group.rank() == 0 {
        println!(
            "{} ranks on one host by {}, f32: median µs of a call, and its ratio to another",
            group.world(),
            group.backend_name()?
        );
        println!(
            "{:<22} {:>9} {:>9} {:>9} {:>6} {:>9} {:>6} {:>9} {:>6} {:>9} {:>6}",
            "",
            "bytes",
            "group",
            "NULL",
            "/group",
            "queued",
            "/group",
            "waited",
            "/group",
            "MPI",
            "of MPI"
        );
    }
    for operation in OPERATIONS {
        for bytes in SIZES {
            measure(operation, bytes, is_quick, &group, &nccl, mpi.as_ref())?;
        }
    }
    nccl.end();
    Ok(())
}

/// Measures a point, and prints its line.
fn measure(
    operation: Operation,
    bytes: usize,
    is_quick: bool,
    group: &Group,
    nccl: &Nccl,
    mpi: Option<&Mpi>,
) -> Result<()> {
    let (now, stream) = (nccl.now(), nccl.stream());
    let mut forms: Vec<timing::Form<'_>> = vec![
        timing::each(move |on| operation.by_group(group, on)),
        timing::each(move |on| operation.by_nccl(nccl, now, on)),
        timing::together(
            move |on| operation.by_nccl(nccl, stream, on),
            move || {
                nccl.synchronize();
                Ok(())
            },
        ),
        timing::each(move |on| {
            operation.by_nccl(nccl, stream, on)?;
            nccl.synchronize();
            Ok(())
        }),
    ];
    if let Some(mpi) = mpi {
        forms.push(timing::each(move |on| operation.by_mpi(mpi, on)));
    }
    let mut buffers = Buffers::new(operation, bytes, group);
    for form in &mut forms {
        buffers.fill();
        form(&mut buffers, 1)?;
        buffers.check();
    }
    // Sums of nothing do not grow.
    buffers.clear();
    let seconds = if is_quick { 0.0 } else { SECONDS };
    let times = timing::medians(&mut forms, &mut buffers, seconds, group)?;
    if group.rank() == 0 {
        tell(operation, bytes, &times);
    }
    Ok(())
}

fn tell(operation: Operation, bytes: usize, times: &[f64]) {
    let [group, now, queued, waited, ..] = *times else { return };
    print!("{:<22} {bytes:>9} {group:>9.2}", operation.name());
    for time in [now, queued, waited] {
        print!(" {time:>9.2} {:>6.2}", time / group);
    }
    match times.get(4) {
        Some(mpi) => println!(" {mpi:>9.2} {:>6.2}", now / mpi),
        None => println!(" {:>9} {:>6}", "-", "-"),
    }
}

/// Bytes: of a message, of what is reduced, and of all that is gathered.
const SIZES: [usize; 5] = [8, 1 << 10, 64 << 10, 1 << 20, 16 << 20];
/// For each form of a point.
const SECONDS: f64 = 0.5;
