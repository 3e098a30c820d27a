//! Ranks on several hosts that work together.

use consort::{Group, ReduceOp};

use crate::cluster::Cluster;
use crate::launch::{Launch, sorted_lines};
use crate::program::program;

#[test]
fn ranks_of_two_hosts_work_together() {
    let program = program(|| {
        work();
    });
    on_two_hosts(&[], &program);
}

#[test]
fn ranks_of_two_hosts_work_together_behind_a_seal() {
    let program = program(|| {
        work();
    });
    on_two_hosts(&["--encrypt"], &program);
}

#[test]
fn ranks_of_two_hosts_work_together_with_checksums_and_comparisons() {
    let program = program(|| {
        work();
    });
    on_two_hosts(&["--integrity", "--verify", "2", "--transport", "tcp"], &program);
}

/// A file says nothing of networks: the launchers know where the hosts are.
#[test]
fn ranks_of_two_hosts_that_meet_in_a_file_work_together() {
    let program = program(|| {
        work();
    });
    let Some(cluster) = Cluster::new(2) else { return };
    all_come_through([0, 1].map(|host| {
        let mut command = cluster.command(host);
        let meeting = format!("file://{}", cluster.path("meeting").display());
        command.args(["--rdzv", &meeting, "--nnodes", "2", "-n", "2", "--"]).args(&program);
        Launch::command(command)
    }));
}

/// Starts two ranks on each of two hosts, and expects that all come through.
fn on_two_hosts(options: &[&str], program: &[String]) {
    let Some(cluster) = Cluster::new(2) else { return };
    let options = [&["--nnodes", "2", "-n", "2"], options].concat();
    all_come_through([0, 1].map(|host| cluster.launch_program(host, &options, program)));
}

fn all_come_through(runs: [Launch; 2]) {
    let mut lines = String::new();
    for run in runs.map(Launch::finish_cleanly) {
        assert_eq!(run.code, 0, "{run:?}");
        lines += &run.stdout;
    }
    let mut lines = sorted_lines(&lines);
    lines.retain(|line| line.contains("well"));
    assert_eq!(lines, [0, 1, 2, 3].map(|rank| format!("[{rank}] all went well for {rank}")));
}

/// What each rank does.
fn work() {
    let group = consort::init().unwrap();
    assert_eq!((group.world(), group.local_world()), (4, 2));
    for count in [1, 5000, 100_000] {
        add_up(&group, count);
        exchange(&group, count);
    }
    let here = group.split(Some(group.rank().get() / 2), 0).unwrap().unwrap();
    add_up(&here, 1000);
    group.barrier().unwrap();
    println!("all went well for {}", group.rank());
}

fn add_up(group: &Group, count: usize) {
    let (me, world) = (u64::from(group.rank().get()), group.world() as u64);
    let mut sum: Vec<u64> = (0..count as u64).map(|at| (me + 1) * at).collect();
    group.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
    let all = world * (world + 1) / 2;
    assert!(sum.iter().zip(0..).all(|(&sum, at)| sum == all * at), "{count} sums are wrong");
}

/// Everyone sends to the right; numbers tell whose they are and where they belong.
fn exchange(group: &Group, count: usize) {
    let (me, world) = (group.rank().get(), group.world() as u32);
    let (left, right) = ((me + world - 1) % world, (me + 1) % world);
    let numbers = |of: u32| (0..count as u64).map(move |at| u64::from(of) << 32 | at);
    let mut incoming = vec![0; count];
    let outgoing: Vec<u64> = numbers(me).collect();
    group.send_recv(&outgoing, right, &mut incoming, left, 1).unwrap();
    assert!(incoming.into_iter().eq(numbers(left)), "a message of {count} numbers is wrong");
}
