use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

pub(crate) fn args(line: &str) -> Result<Args, String> {
    let words = std::iter::once("bench").chain(line.split_ascii_whitespace());
    Line::try_parse_from(words).map(|line| line.args).map_err(|error| error.to_string())
}

fn points(line: &str) -> Vec<String> {
    args(line).unwrap().points().iter().map(Point::to_string).collect()
}

#[test]
fn without_arguments_it_is_all_reduce_between_two_ranks() {
    let args = args("").unwrap();
    let points = args.points();
    assert_eq!(points.len(), 7);
    assert_eq!(points[0].to_string(), "all_reduce f32 sum 8 0.25 out");
    assert_eq!(points[6].to_string(), "all_reduce f32 sum 67108864 0.25 out");
    assert_eq!((args.setting().ranks, args.setting().transport), (2, Transport::Auto));
    assert_eq!(args.rounds(), 1);
}

#[test]
fn points_are_every_operation_with_every_dtype_and_size() {
    let line = "broadcast all_gather --bytes 8,1KiB --dtype f32,bf16 --op max --in-place -n 3";
    assert_eq!(
        points(line),
        [
            "broadcast f32 max 8 0.25 in",
            "broadcast f32 max 1024 0.25 in",
            "broadcast bf16 max 8 0.25 in",
            "broadcast bf16 max 1024 0.25 in",
            "all_gather f32 max 12 0.25 in",
            "all_gather f32 max 1020 0.25 in",
            "all_gather bf16 max 6 0.25 in",
            "all_gather bf16 max 1020 0.25 in",
        ]
    );
}

#[test]
fn all_is_every_operation_and_a_barrier_is_measured_once() {
    let all = points("all --bytes 8,64 --dtype u8,f64 --seconds 1");
    assert_eq!(all.len(), 9 * 4 + 1);
    assert_eq!(all.last().unwrap(), "barrier f32 sum 0 1 out");
}

#[test]
fn sizes_that_come_to_the_same_are_measured_once() {
    assert_eq!(points("all_to_all -n 8 --bytes 4,8,16,32").len(), 1);
}

#[test]
fn in_comparison_each_point_is_measured_five_times_unless_said_otherwise() {
    for line in ["--against gloo", "--transport tcp", "--hosts 2 -n 4"] {
        assert_eq!(args(line).unwrap().rounds(), 5, "{line}");
    }
    for line in ["--transport shm", "--transport tcp -n 1", "--transport tcp --hosts 2"] {
        assert_eq!(args(line).unwrap().rounds(), 1, "{line}");
    }
    let args = args("--against gloo,openmpi --rounds 2").unwrap();
    assert_eq!(args.rounds(), 2);
    let names: Vec<&str> = args.against.iter().map(PeerName::as_str).collect();
    assert_eq!(names, ["gloo", "openmpi"]);
}

#[test]
fn wrong_arguments_are_answered_with_the_right_ones() {
    for (line, part) in [
        ("allreduce", "choose some of all_reduce, broadcast"),
        ("-n 0", "1..=1024"),
        ("--bytes 1KB", "KiB, MiB or GiB"),
        ("--bytes 0", "1 byte or more"),
        ("--dtype float", "choose one of f32"),
        ("--op total", "choose one of sum"),
        ("--seconds 0", "above 0"),
        ("--rounds 0", "1.."),
        ("--transport carrier", "auto, shm, tcp"),
        ("--hosts 0", "1..=16"),
        ("--against ../gloo", "the name of a program in bench/peers"),
    ] {
        let error = args(line).unwrap_err();
        assert!(error.contains(part), "{line}: {error}");
    }
}
