//! What is refused before NCCL is called, and how.

use consort::nccl::{Comm, Error, PreMulSum, Shrink, Stream};
use consort::{Dtype, ReduceOp, Source, Target};
use consort_testkit::ranks;

use crate::meet::{comm, comm_with, library};

#[test]
fn mistakes_are_told_with_rank_and_reason() {
    ranks(2, |ctx| {
        let comm = comm(ctx);
        let (mut a, mut b) = ([0_u8; 24], [0_u8; 48]);
        let (a, b) = (Target::from(&mut a[..]), Target::from(&mut b[..]));
        let f32 = Dtype::F32;
        let on = Stream::DEFAULT;
        let is_root = ctx.rank() == 0;
        let sum = ReduceOp::Sum;
        // SAFETY: it is refused; so is each of these.
        let refused = [
            (
                unsafe { comm.all_reduce(a.into(), b, f32, sum, on) },
                "what is sent has 24 bytes, what is received 48",
            ),
            // SAFETY: as above.
            (
                unsafe { comm.all_reduce(b.slice(0..24).into(), b.slice(8..32), f32, sum, on) },
                "overlap, and are not the same",
            ),
            // SAFETY: as above.
            (
                unsafe { comm.all_reduce(a.slice(0..10).into(), a.slice(0..10), f32, sum, on) },
                "10 bytes, and each f32 has 4",
            ),
            // SAFETY: as above.
            (
                unsafe { comm.broadcast(None, a, f32, 2, on) },
                "root 2 is no rank: there are 2, from 0 on",
            ),
            // SAFETY: as above.
            (unsafe { comm.reduce(a.into(), Some(b), f32, sum, 7, on) }, "root 7 is no rank"),
            // SAFETY: as above.
            (
                unsafe { comm.all_gather(a.into(), b.slice(0..44), f32, on) },
                "has to be 2 times the other",
            ),
            // SAFETY: as above.
            (
                unsafe { comm.all_gather(b.slice(4..28).into(), b, f32, on) },
                "overlap; in place, the part of rank",
            ),
            // SAFETY: as above.
            (
                unsafe { comm.reduce_scatter(a.into(), b, f32, sum, on) },
                "has to be 2 times the other",
            ),
            // SAFETY: as above.
            (unsafe { comm.all_to_all(b.into(), b, f32, on) }, "cannot work in place"),
            // SAFETY: as above.
            (
                unsafe { comm.all_to_all(a.slice(0..4).into(), b.slice(0..4), f32, on) },
                "a part has 2 bytes, and each f32 has 4",
            ),
            // SAFETY: as above.
            (unsafe { comm.send(a.into(), f32, 2, on) }, "the receiver 2 is no rank"),
            // SAFETY: as above.
            (unsafe { comm.recv(a, f32, 5, on) }, "the sender 5 is no rank"),
        ];
        for (result, reason) in refused {
            let error = result.unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, Error::Argument { .. }), "{text}");
            assert!(text.contains(reason), "{reason:?} in {text:?}");
            assert!(text.contains(&format!("rank {} of 2", ctx.rank())), "{text}");
        }
        if is_root {
            // SAFETY: it is not carried out.
            let error = unsafe { comm.gather(a.into(), None, f32, 0, on) }.unwrap_err();
            assert!(
                error.to_string().contains("the root has to give memory to receive"),
                "{error}"
            );
            // SAFETY: as above.
            let error = unsafe { comm.scatter(None, a, f32, 0, on) }.unwrap_err();
            assert!(error.to_string().contains("the root has to give memory to send"), "{error}");
        }
        comm.destroy().unwrap();
    });
}

#[test]
fn what_nccl_does_not_combine_is_refused() {
    ranks(1, |ctx| {
        let comm = comm(ctx);
        for (dtype, op, reason) in [
            (Dtype::Bool, ReduceOp::Sum, "max is true where any is"),
            (Dtype::Bool, ReduceOp::Avg, "NCCL has no bool"),
            (Dtype::I16, ReduceOp::Sum, "NCCL does not combine i16"),
            (Dtype::C64, ReduceOp::Sum, "NCCL does not combine c64"),
            (Dtype::I32, ReduceOp::BitXor, "NCCL has no bit_xor"),
            (Dtype::I32, ReduceOp::PremulSum(0.5), "0.5 is no number of the type i32"),
        ] {
            let mut bytes = [0_u8; 16];
            let target = Target::from(&mut bytes[..]);
            // SAFETY: it is not carried out.
            let result =
                unsafe { comm.all_reduce(target.into(), target, dtype, op, Stream::DEFAULT) };
            let text = result.unwrap_err().to_string();
            assert!(text.contains(reason), "{reason:?} in {text:?}");
        }
        comm.destroy().unwrap();
    });
}

#[test]
fn a_premultiplied_sum_belongs_to_its_communicator_and_dtype() {
    ranks(1, |ctx| {
        let (one, other) = (comm(ctx), comm_with(ctx, "other", &Default::default()));
        let sum = PreMulSum::new(&one, Dtype::F32, 0.5).unwrap();
        let bytes = [0_u8; 8];
        let mut into = [0_u8; 8];
        let target = Target::from(&mut into[..]);
        let source = Source::from(&bytes[..]);
        // SAFETY: it is refused.
        let dtype = unsafe { one.all_reduce(source, target, Dtype::F64, &sum, Stream::DEFAULT) };
        // SAFETY: as above.
        let comm = unsafe { other.all_reduce(source, target, Dtype::F32, &sum, Stream::DEFAULT) };
        let [dtype, comm] = [dtype, comm].map(|wrong| wrong.unwrap_err().to_string());
        assert!(dtype.contains("is one of f32, not of f64"), "{dtype}");
        assert!(comm.contains("belongs to another communicator"), "{comm}");
        // It may outlive it.
        one.destroy().unwrap();
        drop(sum);
        other.destroy().unwrap();
    });
}

#[test]
fn ranks_and_lists_that_cannot_be_are_refused() {
    ranks(1, |ctx| {
        let comm = comm(ctx);
        let bootstrap = consort::nccl::Bootstrap::new(library()).unwrap();
        for (rank, world) in [(2, 2), (0, 0), (u32::MAX, u32::MAX)] {
            let error = Comm::init_rank(library(), world, bootstrap.id(), rank).unwrap_err();
            assert!(error.to_string().contains(&format!("rank {rank} of {world}")), "{error}");
        }
        bootstrap.release();
        for (devices, reason) in
            [(&[][..], "give at least one"), (&[1, 1], "device 1 is there twice")]
        {
            let error = Comm::init_all(library(), devices).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
        for (excluded, reason) in [
            (&[][..], "nobody is excluded"),
            (&[0], "excluded ranks do not call this"),
            (&[3], "it is no rank"),
        ] {
            let error = comm.shrink(excluded, Shrink::WhenIdle, None).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
        assert!(comm.split(Some(u32::MAX), 0, None).is_err());
        assert!(comm.grow(1, None, None).is_err());
        comm.destroy().unwrap();
    });
}
