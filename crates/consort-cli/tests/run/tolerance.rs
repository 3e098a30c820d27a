//! Ranks that fail while the others go on.

use consort::{ErrorKind, ReduceOp};

use crate::launch::{Launch, sorted_lines};
use crate::program::program;

#[test]
fn a_failure_that_is_tolerated_ends_nobody_and_is_told() {
    let script = "if [ $RANK = 1 ]; then exit 3; fi; sleep 0.3; echo rank $RANK is done";
    let run = Launch::script(&["-n", "3", "--tolerate", "1"], script).finish_cleanly();
    assert_eq!(run.code, 0, "{run:?}");
    let lines = sorted_lines(&run.stdout);
    assert_eq!(lines, ["[0] rank 0 is done", "[2] rank 2 is done"], "{run:?}");
    for part in ["rank 1 failed", "exit code 3; the others go on (failure 1 of 1"] {
        assert!(run.stderr.contains(part), "{part}: {run:?}");
    }
}

#[test]
fn one_failure_too_many_ends_the_job() {
    let script = "if [ $RANK != 0 ]; then sleep 0.$RANK; exit 4; fi; sleep 60";
    let run = Launch::script(&["-n", "3", "--tolerate", "1"], script).finish_cleanly();
    assert_eq!(run.code, 4, "{run:?}");
    assert!(run.stderr.contains("rank 2 failed: exit code 4"), "{run:?}");
    let before = "rank 1 had failed before it, which was tolerated: exit code 4";
    assert!(run.stderr.contains(before), "{run:?}");
}

#[test]
fn a_job_of_which_nobody_is_left_has_failed() {
    let run = Launch::script(&["-n", "2", "--tolerate", "5"], "exit 6").finish_cleanly();
    assert_eq!(run.code, 6, "{run:?}");
}

#[test]
fn a_rank_that_is_replaced_writes_where_the_first_one_wrote() {
    let script = "echo rank $RANK, joins: ${CONSORT_JOIN:-off}
                  if [ $RANK = 1 ] && [ -z $CONSORT_JOIN ]; then kill -9 $$; fi; sleep 0.3";
    let options = ["-n", "2", "--tolerate", "1", "--replace"];
    let run = Launch::script(&options, script).finish_cleanly();
    assert_eq!(run.code, 0, "{run:?}");
    let expected = ["[0] rank 0, joins: off", "[1] rank 1, joins: off", "[1] rank 1, joins: on"];
    assert_eq!(sorted_lines(&run.stdout), expected, "{run:?}");
    assert!(run.stderr.contains("killed by SIGKILL"), "{run:?}");
    assert!(run.stderr.contains("it is started again, to join the others"), "{run:?}");
}

#[test]
fn a_rank_that_fails_again_and_again_is_not_started_for_ever() {
    let script = "if [ $RANK = 1 ]; then exit 7; fi; sleep 60";
    let options = ["-n", "2", "--tolerate", "3", "--replace"];
    let run = Launch::script(&options, script).finish_cleanly();
    assert_eq!(run.code, 7, "{run:?}");
    assert_eq!(run.stderr.matches("it is started again").count(), 3, "{run:?}");
}

#[test]
fn survivors_go_on_and_take_the_replacement_in() {
    let program = program(|| {
        let mut group = consort::init().unwrap();
        if group.name() == "world" {
            if group.rank() == 1 {
                group.barrier().unwrap();
                std::process::abort();
            }
            let error = (0..).find_map(|_| group.barrier().err()).unwrap();
            assert_eq!(error.kind(), ErrorKind::PeerGone, "{error}");
            group = group.shrink().unwrap();
            while group.world() < 3 {
                group = group.grow().unwrap();
            }
        }
        let mut sum = [group.rank().get() + 1];
        group.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
        println!("{} is rank {} of {}", sum[0], group.rank(), group.name());
    });
    let options = ["-n", "3", "--tolerate", "1", "--replace", "--"].map(String::from);
    let run = Launch::new(options.into_iter().chain(program)).finish_cleanly();
    assert_eq!(run.code, 0, "{run:?}");
    for line in ["[0] 6 is rank 0 of world+1", "[1] 6 is rank 2 of world+1", "[2] 6 is rank 1 of"] {
        assert!(run.stdout.contains(line), "{line}: {run:?}");
    }
}
