//! Programs that meet with `consort::init` under `consort run`.

use std::fmt::Write as _;
use std::process;
use std::{env, fs};

use consort::{Group, Store};

use super::cluster::Cluster;
use super::launch::{Launch, wait_until};
use super::program::program;

#[test]
fn ranks_know_who_they_are_and_who_the_others_are() {
    let program = program(|| {
        let group = consort::init().unwrap();
        let is = |name: &str, value: &str| assert_eq!(env::var(name).unwrap(), value, "{name}");
        is("RANK", &group.rank().to_string());
        is("WORLD_SIZE", &group.world().to_string());
        is("LOCAL_RANK", &group.local_rank().to_string());
        is("LOCAL_WORLD_SIZE", &group.local_world().to_string());
        is("CONSORT_JOB", group.job());
        is("CONSORT_EPOCH", &group.epoch().to_string());
        assert_eq!(group.members()[group.rank().index()].process, process::id());
        println!("members {}", members(&group));
    });
    let run = launch(&["-n", "3"], &program).finish_cleanly();
    assert_eq!(run.code, 0, "{run:?}");
    told_by_all(&run.stdout, 3);
}

#[test]
fn ranks_of_two_hosts_know_each_other() {
    let program = program(|| {
        let group = consort::init().unwrap();
        let node: usize = env::var("GROUP_RANK").unwrap().parse().unwrap();
        assert_eq!(group.rank().index(), 2 * node + group.local_rank());
        assert_eq!((group.world(), group.local_world()), (4, 2));
        println!("members {}", members(&group));
        group.barrier().unwrap();
    });
    let Some(cluster) = Cluster::new(2) else { return };
    let options = ["--nnodes", "2", "-n", "2"];
    let runs = [0, 1].map(|host| cluster.launch_program(host, &options, &program));
    let [a, b] = runs.map(Launch::finish_cleanly);
    assert_eq!((a.code, b.code), (0, 0), "{a:?} {b:?}");
    let told = told_by_all(&(a.stdout + &b.stdout), 4);
    for host in [0, 1] {
        let address = cluster.hosts.host(host).address().to_string();
        assert_eq!(told.matches(&address).count(), 2, "{address} in {told}");
    }
}

#[test]
fn ranks_that_start_again_meet_anew_in_an_empty_store() {
    let program = program(|| {
        let group = consort::init().unwrap();
        let is_fresh = !group.store().check(&["trace"]).unwrap();
        group.barrier().unwrap();
        group.store().set("trace", b"").unwrap();
        println!("round {} fresh {is_fresh}", group.epoch());
        group.barrier().unwrap();
        if group.epoch() == 0 && group.rank().get() == 1 {
            process::exit(5);
        }
        group.barrier().unwrap();
    });
    let run = launch(&["-n", "3", "--max-restarts", "1"], &program).finish_cleanly();
    assert_eq!(run.code, 0, "{run:?}");
    for (round, rank) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)] {
        let line = format!("[{rank}] round {round} fresh true");
        assert!(run.stdout.contains(&line), "{line} in {run:?}");
    }
}

#[test]
fn ranks_set_up_differently_are_all_shown_the_difference() {
    let program = program(|| {
        let error = consort::init().unwrap_err().to_string();
        println!("told: {}", error.replace('\n', " "));
        // The launcher ends all when the first goes.
        wait_until("the test to have seen it", || fs::exists("seen").unwrap().then_some(()));
        process::exit(1);
    });
    let differ = "CONSORT_TIMEOUT=$((RANK / 2 + 40))s exec \"$@\"";
    let command: Vec<String> = ["sh", "-c", differ, "sh"].map(String::from).into();
    let launch = launch(&["-n", "3"], &[command, program].concat());
    launch.await_lines(3, "told: ");
    launch.touch("seen");
    let run = launch.finish_cleanly();
    assert_eq!(run.code, 1, "{run:?}");
    for rank in 0..3 {
        let told = format!("[{rank}] told: rank {rank}: the ranks of this job differ");
        assert!(run.stdout.contains(&told), "{told} in {run:?}");
    }
    assert_eq!(
        run.stdout.matches("timeout: 40s on ranks 0-1, 41s on rank 2").count(),
        3,
        "{run:?}"
    );
}

#[test]
fn a_rank_that_does_not_meet_is_named_by_the_others() {
    let program = program(|| {
        if env::var("RANK").unwrap() == "1" {
            wait_until("the test to have seen it", || fs::exists("seen").unwrap().then_some(()));
            process::exit(1);
        }
        println!("told: {}", consort::init().unwrap_err());
        wait_until("the test to have seen it", || fs::exists("seen").unwrap().then_some(()));
    });
    let launch = launch(&["-n", "3", "--timeout", "2s"], &program);
    launch.await_lines(2, "missing rank 1;");
    launch.touch("seen");
    assert_eq!(launch.finish_cleanly().code, 1);
}

fn launch(options: &[&str], program: &[String]) -> Launch {
    let program = program.iter().map(String::as_str);
    Launch::new(options.iter().copied().chain(["--"]).chain(program))
}

/// Everyone's process and address, in one line.
fn members(group: &Group) -> String {
    let mut text = String::new();
    for member in group.members() {
        write!(text, "{}={}@{} ", member.rank, member.process, member.address).unwrap();
    }
    text
}

/// What `count` ranks say about the members, all of them the same.
fn told_by_all(output: &str, count: usize) -> String {
    let lines = output.lines().filter_map(|line| Some(line.split_once("] members ")?.1));
    let told: Vec<&str> = lines.collect();
    assert_eq!(told, vec![told[0]; count], "{output}");
    told[0].to_owned()
}
