//! Older versions: what they lack is said, or done in another way.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use consort::nccl::{
    Bootstrap, Code, Comm, Config, Error, Feature, Library, Memory, Shrink, Stream, UniqueId,
    Version, Window, WindowOptions, group,
};
use consort::{Dtype, ReduceOp, Target};
use consort_testkit::{Context, Skip, ranks, skip};

use crate::ends::{add, sum};
use crate::meet::{await_id, path, publish};
use crate::numbers::coded;

#[test]
fn an_older_one_says_what_it_lacks() {
    let library = match old("lacks", 22_703) {
        Ok(library) => library,
        Err(reason) => return skip(reason),
    };
    assert_eq!(library.version(), Version::new(2, 27, 3));
    assert!(library.has(Feature::Split) && !library.has(Feature::AllToAll));
    assert!(!library.has(Feature::Shrink), "its version has it, it has not");
    let bootstrap = Bootstrap::new(library).unwrap();
    let comm = Comm::init_rank(library, 1, bootstrap.id(), 0).unwrap();
    let mut bytes = [0; 2 * 4096];
    let in_order = WindowOptions { symmetric: true, strict_ordering: true };
    for (result, function, needed) in [
        (comm.revoke(), "ncclCommRevoke", Version::new(2, 28, 7)),
        (comm.suspend(), "ncclCommSuspend", Version::new(2, 29, 7)),
        (comm.grow(2, None, None).map(drop), "ncclCommGrow", Version::new(2, 29, 2)),
        (
            window(&comm, &mut bytes, WindowOptions::default()),
            "ncclCommWindowRegister",
            Version::new(2, 27, 0),
        ),
        (
            window(&comm, &mut bytes, in_order),
            "WindowOptions::strict_ordering",
            Version::new(2, 29, 7),
        ),
        (library.parameters().map(drop), "ncclParamGetAllParameterKeys", Version::new(2, 30, 4)),
        (Memory::new(library, 1).map(drop), "ncclMemAlloc", Version::new(2, 19, 0)),
        (
            consort::nccl::simulate(library, || Ok(())).map(drop),
            "ncclGroupSimulateEnd",
            Version::new(2, 22, 0),
        ),
    ] {
        let found = library.version();
        assert_eq!(result.unwrap_err(), Error::NeedsVersion { function, needed, found });
    }
    let config = Config::new().channels_per_net_peer(2);
    let error = comm.split(Some(0), 0, Some(&config)).unwrap_err();
    assert!(
        error.to_string().contains("the field nChannelsPerNetPeer needs NCCL 2.28.0"),
        "{error}"
    );
    assert!(comm.shrink(&[1], Shrink::WhenIdle, None).is_err());
    comm.destroy().unwrap();
}

/// A window on a page of these two, which is closed again.
fn window(comm: &Comm, bytes: &mut [u8], options: WindowOptions) -> Result<(), Error> {
    let start = bytes.as_ptr().align_offset(4096);
    let page = Target::from(bytes).slice(start..start + 4096);
    // SAFETY: the memory is there until the window was forgotten.
    unsafe { comm.window_foreign(page, options) }.and_then(Window::forget)
}

#[test]
fn older_ones_move_what_they_do_not_combine() {
    let done = ranks(2, |ctx| {
        let lacking = [
            (22_304, Dtype::F8E4m3, ReduceOp::Sum, "f8e4m3 needs NCCL 2.24.0 or later, and 2.23.4"),
            (22_304, Dtype::F8E5m2, ReduceOp::Max, "f8e5m2 needs NCCL 2.24.0 or later, and 2.23.4"),
            (2708, Dtype::Bf16, ReduceOp::Product, "bf16 needs NCCL 2.10.0 or later, and 2.7.8"),
            (2708, Dtype::F32, ReduceOp::Avg, "avg needs NCCL 2.10.0 or later, and 2.7.8"),
            (
                2708,
                Dtype::F32,
                ReduceOp::PremulSum(0.5),
                "ncclRedOpCreatePreMulSum needs NCCL 2.11.0 or later, and 2.7.8",
            ),
        ];
        for (at, (version, dtype, op, reason)) in lacking.into_iter().enumerate() {
            let place = ctx.dir().join(format!("lib{at}-{}.so", ctx.rank()));
            let Ok(library) = build("old.c", &place, version) else { return false };
            let config = Config::new().timeout(Duration::from_secs(30));
            let comm = meet_with(ctx, library, &format!("id-{at}"), &config);
            let (mut mine, mut all) = (coded(ctx.rank(), 12), [0; 24]);
            let own = Target::from(&mut mine[..]);
            // SAFETY: it is refused.
            let refused = unsafe { comm.all_reduce(own.into(), own, dtype, op, Stream::DEFAULT) };
            let text = refused.unwrap_err().to_string();
            assert!(text.contains(reason), "{reason:?} in {text:?}");
            let target = Target::from(&mut all[..]);
            // SAFETY: the default stream is done when the call returns; all ranks make the same call.
            unsafe { comm.all_gather(own.into(), target, dtype, Stream::DEFAULT) }.unwrap();
            assert_eq!(all[..], [coded(0, 12), coded(1, 12)].concat());
            comm.destroy().unwrap();
        }
        true
    });
    if done != [true; 2] {
        skip("there is no C compiler that makes an older NCCL");
    }
}

#[test]
fn the_oldest_make_communicators_that_block() {
    let done = ranks(2, |ctx| {
        let Ok(library) = old_of(ctx, 2708) else { return false };
        assert!(!library.has(Feature::NonBlocking));
        let comm = meet(ctx, library);
        assert_eq!(sum(&comm).unwrap(), 2);
        comm.destroy().unwrap();
        true
    });
    if done != [true; 2] {
        skip("there is no C compiler that makes an older NCCL");
    }
}

#[test]
fn what_older_ones_lack_is_made_of_messages() {
    let done = ranks(3, |ctx| {
        let Ok(library) = old_of(ctx, 22_703) else { return false };
        let comm = meet(ctx, library);
        let (rank, world) = (ctx.rank(), ctx.world() as usize);
        for len in [0, 1, 301] {
            let out = coded(rank, len * world);
            let mut into = vec![0; len * world];
            // SAFETY: the default stream is done when the call returns; all ranks make the same call. So below.
            unsafe {
                comm.all_to_all(
                    (&out[..]).into(),
                    (&mut into[..]).into(),
                    Dtype::U8,
                    Stream::DEFAULT,
                )
            }
            .unwrap();
            let at = rank as usize * len;
            let expected: Vec<u8> =
                (0..3).flat_map(|from| coded(from, len * world)[at..at + len].to_vec()).collect();
            assert_eq!(into, expected);
            for root in 0..3 {
                let mine = coded(rank, len);
                let mut all = vec![0; len * world];
                let recv = (rank == root).then(|| (&mut all[..]).into());
                // SAFETY: as above.
                unsafe { comm.gather((&mine[..]).into(), recv, Dtype::U8, root, Stream::DEFAULT) }
                    .unwrap();
                if rank == root {
                    assert_eq!(all, (0..3).flat_map(|from| coded(from, len)).collect::<Vec<_>>());
                }
                let whole = coded(root, len * world);
                let send = (rank == root).then(|| (&whole[..]).into());
                let mut part = vec![0; len];
                // SAFETY: as above.
                unsafe {
                    comm.scatter(send, (&mut part[..]).into(), Dtype::U8, root, Stream::DEFAULT)
                }
                .unwrap();
                assert_eq!(part, whole[at..at + len]);
            }
        }
        // Within a group they are part of it.
        let (out, mut into) = (coded(rank, 3), [0; 3]);
        group(library, || {
            // SAFETY: as above, when the group has ended.
            unsafe {
                comm.all_to_all(
                    (&out[..]).into(),
                    (&mut into[..]).into(),
                    Dtype::U8,
                    Stream::DEFAULT,
                )
            }
        })
        .unwrap();
        assert_eq!(into[..], [0, 1, 2].map(|from| coded(from, 3)[rank as usize]));
        comm.destroy().unwrap();
        true
    });
    if done != [true; 3] {
        skip("there is no C compiler that makes an older NCCL");
    }
}

#[test]
fn an_abort_frees_a_thread_that_older_ones_keep_waiting() {
    let done = ranks(2, |ctx| {
        let Ok(library) = old_of(ctx, 22_703) else { return false };
        assert!(!library.has(Feature::Revoke));
        let blocking = Config::new().blocking(true);
        for (name, in_group) in [("alone", false), ("grouped", true)] {
            let comm = meet_with(ctx, library, name, &blocking);
            if ctx.rank() == 0 {
                // The other rank never makes the call.
                let error = thread::scope(|scope| {
                    let waiting = scope.spawn(|| {
                        let mut bytes = [0; 4];
                        let number = Target::from(&mut bytes[..]);
                        match in_group {
                            true => group(library, || add(&comm, number)),
                            false => add(&comm, number),
                        }
                    });
                    thread::sleep(Duration::from_millis(300));
                    assert!(!waiting.is_finished());
                    comm.abort().unwrap();
                    waiting.join().unwrap().unwrap_err()
                });
                assert!(matches!(error, Error::Ended { rank: 0, fate: "aborted", .. }), "{error}");
                assert!(matches!(sum(&comm), Err(Error::Ended { .. })));
                comm.abort().unwrap();
                std::fs::write(ctx.dir().join(format!("{name} is over")), "").unwrap();
            }
            while !ctx.dir().join(format!("{name} is over")).exists() {
                thread::sleep(Duration::from_millis(5));
            }
        }
        true
    });
    if done != [true; 2] {
        skip("there is no C compiler that makes an older NCCL");
    }
}

fn meet(ctx: &Context, library: Library) -> Comm {
    meet_with(ctx, library, "id", &Config::new().timeout(Duration::from_secs(30)))
}

fn meet_with(ctx: &Context, library: Library, name: &str, config: &Config) -> Comm {
    let place = ctx.dir().join(name);
    if ctx.rank() == 0 {
        let bootstrap = Bootstrap::new(library).unwrap();
        publish(&place, bootstrap.id());
        return Comm::init_rank_with(library, ctx.world(), bootstrap.id(), 0, config).unwrap();
    }
    Comm::init_rank_with(library, ctx.world(), &await_id(&place), ctx.rank(), config).unwrap()
}

#[test]
fn answers_that_nobody_knows_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let library = match compile("odd.c", &folder.path().join("libodd.so"), 23_007) {
        Ok(library) => library.unwrap(),
        Err(reason) => return skip(reason),
    };
    let error = Bootstrap::new(library).unwrap_err();
    assert_eq!(error.code(), Some(Code(4711)));
    assert_eq!(error.to_string(), "ncclGetUniqueId: 4711");
    assert_eq!(group(library, || Ok(())).unwrap_err().code(), Some(Code(-3)));
    let error = Comm::init_all(library, &[0, 1]).unwrap_err();
    assert!(
        error.to_string().contains("said that it had a communicator, and gave none"),
        "{error}"
    );
    assert_eq!(library.last_error(), "");
    assert_eq!(
        library.features().collect::<Vec<_>>(),
        [Feature::Avg, Feature::Bf16, Feature::Float8]
    );
    let id = UniqueId::from_bytes(&[7; 128]).unwrap();
    let error = Comm::init_rank(library, 1, &id, 0).unwrap_err();
    assert!(matches!(error, Error::NeedsVersion { function: "ncclCommInitRank", .. }), "{error}");
}

#[test]
fn versions_that_cannot_be_are_not_nccl() {
    let folder = tempfile::tempdir().unwrap();
    for version in [0, -7] {
        let file = folder.path().join(format!("libodd{version}.so"));
        match compile("odd.c", &file, version) {
            Ok(library) => assert!(matches!(library, Err(Error::NotNccl { .. })), "{library:?}"),
            Err(reason) => return skip(reason),
        }
    }
}

/// An older one for the ranks of a test, each of which makes its own.
fn old_of(ctx: &Context, version: i32) -> Result<Library, Skip> {
    build("old.c", &ctx.dir().join(format!("libold{}.so", ctx.rank())), version)
}

/// An older one for a test without ranks.
fn old(name: &str, version: i32) -> Result<Library, Skip> {
    let folder = tempfile::tempdir().unwrap();
    build("old.c", &folder.path().join(format!("lib{name}.so")), version)
}

/// Another NCCL in front of consort's own. Its forwarding is written for one processor.
pub(crate) fn build(source: &str, to: &Path, version: i32) -> Result<Library, Skip> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Skip::new("older versions are made for x86_64"));
    }
    compile(source, to, version).map(Result::unwrap)
}

/// A library of C, if there is a compiler; and whether it is NCCL.
fn compile(source: &str, to: &Path, version: i32) -> Result<Result<Library, Error>, Skip> {
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(to)
        .arg(format!("-DLIBRARY=\"{}\"", path().display()))
        .arg(format!("-DVERSION={version}"))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api").join(source))
        .arg("-ldl")
        .output();
    let Ok(built) = built else { return Err(Skip::new("there is no C compiler")) };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Ok(Library::open(to))
}
