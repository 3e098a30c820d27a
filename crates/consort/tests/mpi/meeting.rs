//! How ranks that MPI's launcher has started meet.

use std::time::{Duration, Instant};

use consort::{Builder, Engine, Error, Transport};
use consort_testkit::{Mpi, Ranks, skip};

use super::child::in_a_child;
use super::{invited, ranks, works};

#[test]
fn a_program_that_mpiexec_starts_needs_no_place_and_no_secret() {
    let ranks = match ranks(3) {
        Ok(ranks) => ranks.env("CONSORT_BACKEND", "mpi"),
        Err(reason) => return skip(reason),
    };
    let found = ranks.start(|ctx| {
        let group = consort::init().unwrap();
        assert_eq!((group.rank().get(), group.world()), (ctx.rank(), 3));
        works(&group);
        group.backend_name().unwrap().to_owned()
    });
    assert_eq!(found.expect_all(), ["mpi"; 3]);
}

#[test]
fn a_rank_whose_interface_is_not_there_is_named_at_once() {
    let ranks = match ranks(3) {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let errors = ranks.start(|ctx| {
        let builder = Builder::from_environment().unwrap().engine(Engine::Mpi);
        let builder = if ctx.rank() == 1 { builder.interface("nosuch0") } else { builder };
        let began = Instant::now();
        let error = builder.init().unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(30), "the deadline came first");
        error.to_string()
    });
    let errors = errors.expect_all();
    assert!(errors[1].contains("\"nosuch0\" is neither an interface nor"), "{errors:?}");
    for rank in [0, 2] {
        let told = "rank 1 does not know where other hosts reach it";
        assert!(errors[rank].contains(told), "{errors:?}");
    }
}

#[test]
fn the_library_is_found_beside_the_launcher_that_was_called_by_its_path() {
    let ranks = match ranks(2) {
        // Empty is as if it were not there.
        Ok(ranks) => ranks.env("CONSORT_BACKEND", "mpi").env("CONSORT_MPI_LIBRARY", ""),
        Err(reason) => return skip(reason),
    };
    let found = ranks.start(|_| {
        let group = consort::init().unwrap();
        works(&group);
        consort::engines::mpi().unwrap().version
    });
    for version in found.expect_all() {
        assert_eq!(version, "MPICH Version: 5.0.2");
    }
}

#[test]
fn an_mpi_with_an_interface_of_its_own_is_told_from_the_standards() {
    let mpi = match Mpi::find() {
        Ok(mpi) => mpi,
        Err(reason) => return skip(reason),
    };
    // A script for linkers, which leads to the library.
    let own = mpi.library().with_file_name("libmpi.so");
    let errors = Ranks::new(1)
        .env("CONSORT_MPI_LIBRARY", own)
        .start(|_| consort::engines::mpi().unwrap_err().to_string());
    for error in errors.expect_all() {
        let expected = "/libmpi.so.12 is an MPI with an interface of its own, not the standard's: name its \
                        libmpi_abi.so";
        assert!(error.ends_with(expected), "{error}");
    }
}

#[test]
fn the_name_without_a_number_leads_to_the_library() {
    let mpi = match Mpi::find() {
        Ok(mpi) => mpi,
        Err(reason) => return skip(reason),
    };
    let found = Ranks::new(1)
        .env("CONSORT_MPI_LIBRARY", mpi.library().with_file_name("libmpi_abi.so"))
        .start(|_| consort::engines::mpi().unwrap().path);
    assert_eq!(found.expect_all(), [mpi.library()]);
}

#[test]
fn on_one_host_its_ranks_use_their_own_memory_unless_mpi_is_asked_for() {
    let ranks = match ranks(2) {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let found = ranks.start(|_| {
        let group = consort::init().unwrap();
        works(&group);
        group.backend_name().unwrap().to_owned()
    });
    assert_eq!(found.expect_all(), ["shm"; 2]);
}

#[test]
fn between_hosts_mpi_carries_their_data_unless_it_is_said_how_that_travels() {
    let ranks = match ranks(2).and_then(|ranks| ranks.on_hosts(2)) {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let found = ranks.start(|_| {
        let ways: [fn(Builder) -> Builder; 7] = [
            |builder| builder,
            |builder| builder.transport(Transport::Auto).verify_results(5),
            |builder| builder.encrypt(true),
            |builder| builder.integrity(true),
            |builder| builder.transport(Transport::Tcp),
            |builder| builder.algorithm("ring"),
            |builder| builder.streams(2),
        ];
        ways.map(|way| {
            let group = way(Builder::from_environment().unwrap()).init().unwrap();
            works(&group);
            group.backend_name().unwrap().to_owned()
        })
    });
    assert_eq!(found.expect_all(), [["mpi", "mpi", "tcp", "tcp", "tcp", "tcp", "tcp"]; 2]);
}

#[test]
fn data_that_is_to_be_guarded_between_hosts_is_not_for_mpi() {
    let ranks = match ranks(2).and_then(|ranks| ranks.on_hosts(2)) {
        Ok(ranks) => ranks.env("CONSORT_BACKEND", "mpi").env("CONSORT_ENCRYPT", "on"),
        Err(reason) => return skip(reason),
    };
    let errors = ranks.start(|_| consort::init().unwrap_err().to_string());
    for error in errors.expect_all() {
        assert!(error.contains("MPI neither encrypts data nor adds a checksum of ours"), "{error}");
    }
}

#[test]
fn a_process_can_meet_again_after_it_has_left() {
    let ranks = match ranks(2) {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let found = ranks.start(|ctx| {
        for epoch in 0..3 {
            let group = invited(ctx, Transport::Auto).epoch(epoch).init().unwrap();
            assert_eq!(group.backend_name().unwrap(), "mpi");
            works(&group);
        }
    });
    found.expect_all();
}

#[test]
fn a_forked_child_is_told_that_mpi_is_its_parents_and_the_group_goes_on() {
    let ranks = match ranks(2) {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let found = ranks.start(|ctx| {
        let group = invited(ctx, Transport::Auto).init().unwrap();
        works(&group);
        let mut found = in_a_child(|| {
            let tried = invited(ctx, Transport::Auto).epoch(1).init();
            vec![tried.map_or_else(|error| error.to_string(), |_| "a group".to_owned())]
        });
        works(&group);
        found.remove(0)
    });
    for told in found.expect_all() {
        assert!(told.starts_with("MPI cannot be used: this process was forked from"), "{told}");
    }
}

#[test]
fn without_the_library_it_is_told_what_is_missing() {
    let ranks = match ranks(2) {
        Ok(ranks) => ranks.env("CONSORT_MPI_LIBRARY", "/nowhere/libmpi_abi.so"),
        Err(reason) => return skip(reason),
    };
    let found = ranks.start(|ctx| {
        let guessed = consort::init().unwrap_err();
        let asked = invited(ctx, Transport::Auto).init().unwrap_err();
        assert!(matches!(asked, Error::Mpi(_)), "{asked:?}");
        (guessed.to_string(), asked.to_string())
    });
    for (guessed, asked) in found.expect_all() {
        let missing = "/nowhere/libmpi_abi.so: cannot open shared object file";
        for part in ["the place is missing", "PMI_SIZE=2", missing] {
            assert!(guessed.contains(part), "{guessed}");
        }
        assert!(asked.contains(missing) && asked.contains("CONSORT_MPI_LIBRARY"), "{asked}");
    }
}

#[test]
fn a_program_that_another_launcher_starts_is_told_to_use_mpis() {
    let mpi = match Mpi::find() {
        Ok(mpi) => mpi,
        Err(reason) => return skip(reason),
    };
    let ranks = Ranks::new(2).env("CONSORT_MPI_LIBRARY", mpi.library());
    let errors = ranks.start(|ctx| {
        let alone = Builder::new().rank(0).world(1).engine(Engine::Mpi).init().unwrap();
        assert_eq!(alone.backend_name().unwrap(), "mpi");
        works(&alone);
        invited(ctx, Transport::Auto).init().unwrap_err().to_string()
    });
    for (rank, error) in errors.expect_all().into_iter().enumerate() {
        let told = format!("this process is rank {rank} of 2, but ");
        assert!(error.contains(&told) && error.contains("use mpiexec or srun"), "{error}");
    }
}

#[test]
fn a_program_that_open_mpis_launcher_starts_is_told_that_mpich_does_not_know_it() {
    let mpi = match Mpi::find() {
        Ok(mpi) => mpi,
        Err(reason) => return skip(reason),
    };
    let ranks = Ranks::new(2).env("CONSORT_MPI_LIBRARY", mpi.library());
    let ranks = ranks.env("OMPI_COMM_WORLD_SIZE", "2");
    let errors = ranks.start(|ctx| invited(ctx, Transport::Auto).init().unwrap_err().to_string());
    for error in errors.expect_all() {
        assert!(error.contains("this library does not know that launcher"), "{error}");
        assert!(error.contains("use the mpiexec of an MPI that has libmpi_abi.so"), "{error}");
    }
}

#[test]
fn ranks_that_differ_in_their_engine_are_told_so() {
    let ranks = match ranks(2) {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let errors = ranks.start(|ctx| {
        let builder = invited(ctx, Transport::Auto);
        let builder = if ctx.rank() == 0 { builder.engine(Engine::Host) } else { builder };
        builder.init().unwrap_err().to_string()
    });
    for error in errors.expect_all() {
        assert!(error.contains("engine: host on rank 0, mpi on rank 1"), "{error}");
    }
}
