use consort_sys::dtype::ReduceOp;

use super::super::op::Op;
use super::super::point::Point;
use super::super::point::tests::point;
use super::super::record::tests::record;
use super::*;

fn comparison(op: Op, bytes: usize, times: &[f64]) -> Comparison {
    let point = Point { in_place: op == Op::AllReduce, ..point(op, bytes) };
    let records = times
        .iter()
        .zip(["consort", "gloo", "intelmpi"])
        .map(|(time, name)| time.is_finite().then(|| record(name, op, bytes, *time)));
    Comparison { point, records: records.collect() }
}

fn shown(comparisons: &[Comparison], peers: &[&str], colours: bool) -> String {
    let names = [&["consort"], peers].concat().into_iter().map(str::to_owned).collect();
    let mut table = Table::new(names, colours);
    comparisons.iter().map(|comparison| table.row(comparison)).collect()
}

#[test]
fn a_table_shows_ours_in_full_and_peers_with_the_ratio() {
    let comparisons = [
        comparison(Op::AllReduce, 8, &[0.0912, 252.4, 0.31]),
        comparison(Op::AllReduce, 1 << 20, &[54.0, 500.0, 45.0]),
        comparison(Op::AllReduce, 64 << 20, &[6700.0, f64::NAN, 22_512.0]),
        comparison(Op::Barrier, 0, &[f64::NAN, 100.0, 0.2]),
    ];
    insta::assert_snapshot!(shown(&comparisons, &["gloo", "intelmpi"], false), @r"

    all_reduce f32 sum, 2 ranks, shm, in place; µs
        bytes       p50       p99       min  bus GB/s     gloo  intelmpi   ratio
          8 B      0.09      0.18      0.08    0.0877      252      0.31    3.40
        1 MiB      54.0       108      48.6      19.4      500      45.0    0.83
       64 MiB     6,700    13,400     6,030      10.0        –    22,512    3.36

    barrier, 2 ranks, shm; µs
        bytes       p50       p99       min  bus GB/s     gloo  intelmpi   ratio
          0 B         –         –         –         –      100      0.20       –
    ");
}

#[test]
fn a_heading_says_what_is_unusual() {
    let mut comparison = comparison(Op::AllReduce, 8, &[1.0, 2.0]);
    comparison.point.reduce = ReduceOp::PremulSum(0.5);
    for (record, symmetric) in comparison.records.iter_mut().flatten().zip([true, false]) {
        (record.symmetric, record.huge_pages) = (symmetric, true);
    }
    let words = "all_reduce f32 premul_sum:0.5, 2 ranks, shm, in place, symmetric, huge pages";
    let shown = shown(&[comparison], &["gloo"], false);
    assert!(shown.starts_with(&format!("\n{words}; µs\n")), "{shown}");
}

#[test]
fn bare_sockets_have_a_column_of_their_own() {
    let mut comparison = comparison(Op::AllReduce, 1 << 20, &[400.0, 500.0]);
    let mut raw = record("raw", Op::AllReduce, 1 << 20, 320.0);
    raw.streams = Some(4);
    comparison.records.push(Some(raw));
    let with_a_peer = shown(&[comparison.clone()], &["gloo", "raw"], false);
    insta::assert_snapshot!(with_a_peer, @r"

    all_reduce f32 sum, 2 ranks, shm, in place; µs
        bytes       p50       p99       min  bus GB/s     gloo         raw   ratio  of raw
        1 MiB       400       800       360      2.62      500      320 x4    1.25    80 %
    ");
    comparison.records.remove(1);
    let alone = shown(&[comparison], &["raw"], false);
    insta::assert_snapshot!(alone, @r"

    all_reduce f32 sum, 2 ranks, shm, in place; µs
        bytes       p50       p99       min  bus GB/s         raw  of raw
        1 MiB       400       800       360      2.62      320 x4    80 %
    ");
}

#[test]
fn a_p99_below_p50_is_marked() {
    let mut odd = comparison(Op::Broadcast, 1024, &[0.5]);
    for record in odd.records.iter_mut().flatten() {
        (record.p99_us, record.ranks) = (0.2, 1);
    }
    insta::assert_snapshot!(shown(&[odd], &[], false), @r"

    broadcast f32, 1 rank, shm; µs
        bytes       p50       p99       min  bus GB/s
        1 KiB      0.50     0.20*      0.45      2.05
    ");
}

#[test]
fn alone_there_are_neither_peers_nor_a_ratio() {
    let comparisons = [comparison(Op::Broadcast, 1024, &[0.5])];
    insta::assert_snapshot!(shown(&comparisons, &[], false), @r"

    broadcast f32, 2 ranks, shm; µs
        bytes       p50       p99       min  bus GB/s
        1 KiB      0.50      1.00      0.45      2.05
    ");
}

#[test]
fn colours_tell_faster_from_slower() {
    let fast = shown(&[comparison(Op::Scatter, 8, &[1.0, 2.0])], &["gloo"], true);
    assert!(fast.contains("\x1b[32m  2.00\x1b[0m"), "{fast:?}");
    let slow = shown(&[comparison(Op::Scatter, 8, &[2.0, 1.0])], &["gloo"], true);
    assert!(slow.contains("\x1b[31m  0.50\x1b[0m"), "{slow:?}");
}

#[test]
fn a_ratio_of_measurements_that_cannot_be_compared_is_marked() {
    let mut shaky = comparison(Op::Scatter, 8, &[1.0, 2.0]);
    for (record, hop) in shaky.records.iter_mut().flatten().zip([0.05, 0.19]) {
        record.hop_us = Some(hop);
    }
    assert!(shown(&[shaky], &["gloo"], false).ends_with("2.00 ~\n"));
}
