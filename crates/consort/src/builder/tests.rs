use consort_store::Place;

use super::invitation::DEFAULT_TIMEOUT;
use super::*;
use crate::options::{Options, Transport};

fn complete(builder: Builder) -> Result<Invitation, String> {
    builder.complete().map_err(|error| error.to_string())
}

fn from(environment: &str) -> Builder {
    let pairs = environment.split_whitespace().map(|pair| pair.split_once('=').unwrap());
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Builder::from_variables(&Variables::of(pairs)).unwrap()
}

#[test]
fn everything_that_is_missing_is_listed_at_once() {
    let error = complete(Builder::new()).unwrap_err();
    for part in
        ["found: nothing", "rank is missing", "world is missing", "place is missing", "consort run"]
    {
        assert!(error.contains(part), "{part} in\n{error}");
    }
}

#[test]
fn what_was_found_is_shown_beside_what_is_missing() {
    let builder = from("RANK=1 WORLD_SIZE=2");
    let error = complete(builder).unwrap_err();
    assert!(error.contains("found: RANK=1 WORLD_SIZE=2"), "{error}");
    assert!(error.contains("the place is missing"), "{error}");
    assert!(!error.contains("MPI"), "{error}");
}

#[test]
fn what_is_wrong_with_a_variable_is_said_first() {
    let variables = [("CONSORT_BACKEND", "nonsense"), ("PMI_RANK", "0"), ("PMI_SIZE", "2")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let error = Builder::from_variables(&Variables::of(variables.into_iter())).unwrap_err();
    let error = error.to_string();
    let lines: Vec<&str> = error.lines().collect();
    assert!(lines[0].starts_with("CONSORT_BACKEND=nonsense: no engine"), "{error}");
    assert!(lines[1].starts_with("  found: "), "{error}");
}

#[test]
fn ranks_that_mpi_could_tell_where_to_meet_hear_why_it_does_not() {
    let error = complete(from("PMI_RANK=0 PMI_SIZE=2 CONSORT_BACKEND=host")).unwrap_err();
    assert!(error.contains("MPI is not asked for it with the engine host"), "{error}");
}

#[test]
fn an_address_that_contradicts_the_rest_is_refused_in_either_order() {
    let address = "tcp://a:1?rank=1&world=2";
    let before = Builder::new().rank(0).world(2).address(address).unwrap();
    let after = Builder::new().address(address).unwrap().rank(0).world(2);
    for builder in [before, after] {
        let error = complete(builder).unwrap_err();
        assert!(error.contains("rank is 1 in the address, 0 in Builder::rank"), "{error}");
        assert!(!error.contains("world is"), "{error}");
    }
}

#[test]
fn what_the_program_says_counts_more_than_the_environment() {
    let environment =
        || from("RANK=0 WORLD_SIZE=2 CONSORT_RDZV=file:///a CONSORT_JOB=b CONSORT_TIMEOUT=1s");
    let addressed = environment().address("file:///c?rank=1&world=3").unwrap();
    let invitation = complete(addressed).unwrap();
    assert_eq!((invitation.rank, invitation.world), (1, 3));
    assert_eq!(invitation.place, Some(Place::File("/c".into())));
    assert_eq!(invitation.job, "b");
    let invitation = complete(environment().rank(1).job("d").timeout(DEFAULT_TIMEOUT)).unwrap();
    assert_eq!((invitation.rank, invitation.world), (1, 2));
    assert_eq!((invitation.job.as_str(), invitation.timeout), ("d", DEFAULT_TIMEOUT));
}

#[test]
fn nobody_meets_at_port_0() {
    let said = Builder::new().address("tcp://a:0?rank=0&world=2").unwrap();
    let found = from("RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=0");
    for builder in [said, found] {
        let error = complete(builder).unwrap_err();
        assert!(error.contains("port 0 of a is no place to meet"), "{error}");
    }
}

#[test]
fn a_meeting_over_tcp_needs_a_secret_and_one_over_a_file_does_not() {
    let tcp = Builder::new().address("tcp://a:1?rank=0&world=2").unwrap();
    assert!(complete(tcp.clone()).unwrap_err().contains("the job's secret is missing"));
    assert!(complete(tcp.secret(Secret::generate().unwrap())).is_ok());
    assert!(complete(Builder::new().address("file:///x?rank=0&world=2").unwrap()).is_ok());
}

#[test]
fn a_world_of_one_needs_no_place() {
    assert!(complete(Builder::new().rank(0).world(1)).unwrap().place.is_none());
}

#[test]
fn a_rank_beyond_the_world_is_refused() {
    let error = complete(Builder::new().rank(1).world(1)).unwrap_err();
    assert!(error.contains("rank 1 is not below the world of 1"), "{error}");
}

#[test]
fn options_of_the_program_count_more_than_those_of_the_environment() {
    let environment = || {
        from(
            "RANK=0 WORLD_SIZE=1 CONSORT_TRANSPORT=tcp CONSORT_ENCRYPT=on CONSORT_VERIFY=5 \
             CONSORT_ALGORITHM=ring CONSORT_STREAMS=2 CONSORT_PORT=1",
        )
    };
    let found = complete(environment()).unwrap().options;
    assert_eq!((found.transport, found.encrypt, found.integrity), (Transport::Tcp, true, false));
    assert_eq!((found.algorithm.as_deref(), found.port), (Some("ring"), Some(1)));
    let said = environment().transport(Transport::Auto).encrypt(false).verify_results(0);
    let said = said.algorithm("auto").streams(0).data_port(0);
    assert_eq!(complete(said).unwrap().options, Options { port: Some(0), ..Options::default() });
}

#[test]
fn options_that_are_not_there_are_refused_with_those_that_are() {
    let error =
        complete(Builder::new().rank(0).world(1).algorithm("rings").streams(9)).unwrap_err();
    assert!(error.contains("Builder::algorithm: no algorithm \"rings\"; choose auto"), "{error}");
    assert!(error.contains("Builder::streams: give 1 to 8"), "{error}");
}

#[test]
fn a_listener_is_of_no_use_for_a_meeting_in_a_file() {
    let builder = |rank: u32| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let builder = Builder::new().address("file:///x?world=2").unwrap();
        builder.rank(rank).listener(listener)
    };
    let error = complete(builder(0)).unwrap_err();
    assert!(
        error.contains("Builder::listener is of no use for a meeting in a file, /x"),
        "{error}"
    );
    assert!(complete(builder(1)).is_ok());
}
