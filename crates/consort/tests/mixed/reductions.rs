//! all_reduce, reduce and reduce_scatter, against the hosts' results combined.

use consort::{Call, Dtype, Group, Inputs, Outputs, Rank, ReduceOp, Source, Target};

use super::meet::{bytes, let_in, meet, ranks};
use super::oracle::{combine, operations};

/// What a group makes of these buffers of all its ranks. Where several hosts have several ranks each, it
/// combines the buffers of each host, and then the hosts' results.
fn combine_in(group: &Group, dtype: Dtype, op: ReduceOp, all: &[Vec<u8>]) -> Vec<u8> {
    let is_small = matches!(dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F8E4m3 | Dtype::F8E5m2);
    let is_real = matches!(dtype, Dtype::F32 | Dtype::F64 | Dtype::C64 | Dtype::C128);
    let is_whole_mean = op == ReduceOp::Avg && !is_small && !is_real;
    if group.backend_name().unwrap() != "mixed" || is_whole_mean {
        return combine(dtype, op, all);
    }
    let divides_last = op == ReduceOp::Avg && is_real;
    let inner = if divides_last { ReduceOp::Sum } else { op };
    let mut partial = Vec::new();
    for (rank, member) in group.members().iter().enumerate() {
        let is_here = |it: &usize| group.members()[*it].host == member.host;
        if (0..rank).any(|it| is_here(&it)) {
            continue;
        }
        let here: Vec<_> = (rank..all.len()).filter(is_here).map(|it| all[it].clone()).collect();
        partial.push(combine(dtype, inner, &here));
    }
    match op {
        ReduceOp::Avg if divides_last => divided(dtype, &partial, all.len()),
        ReduceOp::PremulSum(_) => combine(dtype, ReduceOp::Sum, &partial),
        _ => combine(dtype, op, &partial),
    }
}

/// The sum of these, divided by a number.
fn divided(dtype: Dtype, sums: &[Vec<u8>], by: usize) -> Vec<u8> {
    let sum = combine(dtype, ReduceOp::Sum, sums);
    if matches!(dtype, Dtype::F32 | Dtype::C64) {
        let numbers = sum.as_chunks().0.iter().map(|it| f32::from_le_bytes(*it) / by as f32);
        return numbers.flat_map(f32::to_le_bytes).collect();
    }
    let numbers = sum.as_chunks().0.iter().map(|it| f64::from_le_bytes(*it) / by as f64);
    numbers.flat_map(f64::to_le_bytes).collect()
}

fn every_reduction(group: &Group) -> Vec<u8> {
    let (me, world) = (group.rank().index(), group.world());
    let mut results = Vec::new();
    let mut call = 0;
    for dtype in Dtype::ALL {
        for op in operations(dtype) {
            for count in counts(dtype) {
                call += 1;
                let len = count * dtype.size();
                let all: Vec<Vec<u8>> = (0..world).map(|rank| bytes(rank, call, len)).collect();
                let right = combine_in(group, dtype, op, &all);
                let told = || format!("call {call}, {op} of {count} {dtype}");
                results.extend_from_slice(&all_reduce(group, dtype, op, &all[me], call));
                assert_eq!(results[results.len() - len..], right, "{}", told());
                let root = call % world;
                let reduced = reduce(group, dtype, op, root, &all[me]);
                assert!(reduced.is_none_or(|it| it == right), "reduce to {root}: {}", told());
                let parts: Vec<Vec<u8>> =
                    (0..world).map(|rank| bytes(rank, call, len * world)).collect();
                let mine: Vec<Vec<u8>> =
                    parts.iter().map(|it| it[me * len..(me + 1) * len].to_vec()).collect();
                let scattered = reduce_scatter(group, dtype, op, &parts[me], call);
                assert_eq!(scattered, combine_in(group, dtype, op, &mine), "scatter: {}", told());
            }
        }
    }
    blake3::hash(&results).as_bytes().to_vec()
}

/// Nothing, less than a line, some, and what goes in slices.
fn counts(dtype: Dtype) -> Vec<usize> {
    let large = 17_000 / dtype.size() + 7;
    match dtype {
        Dtype::F32 => vec![0, 1, 333, large, 5 * large],
        Dtype::Bf16 | Dtype::I32 | Dtype::F64 => vec![3, large],
        _ => vec![33],
    }
}

fn all_reduce(group: &Group, dtype: Dtype, op: ReduceOp, mine: &[u8], call: usize) -> Vec<u8> {
    let mut output = mine.to_vec();
    let target = Target::from(&mut output[..]);
    let input = if call.is_multiple_of(2) { target.into() } else { Source::from(mine) };
    group.call(&Call::AllReduce { dtype, op, input, output: target }).unwrap();
    output
}

fn reduce(group: &Group, dtype: Dtype, op: ReduceOp, root: usize, mine: &[u8]) -> Option<Vec<u8>> {
    let mut output = (root == group.rank().index()).then(|| vec![0; mine.len()]);
    let target = output.as_mut().map(|output| Target::from(&mut output[..]));
    let (root, input) = (Rank::from(root as u32), Source::from(mine));
    group.call(&Call::Reduce { dtype, op, root, input, output: target }).unwrap();
    output
}

fn reduce_scatter(group: &Group, dtype: Dtype, op: ReduceOp, mine: &[u8], call: usize) -> Vec<u8> {
    let part = mine.len() / group.world();
    let mut output = vec![0; part];
    let target = Target::from(&mut output[..]);
    let parts: Vec<Source<'_>> = (0..group.world())
        .map(|rank| Source::from(&mine[rank * part..(rank + 1) * part]))
        .collect();
    let inputs = match call % 2 {
        0 => Inputs::Equal(Source::from(mine)),
        _ => Inputs::List(&parts),
    };
    group.call(&Call::ReduceScatter { dtype, op, inputs, output: target }).unwrap();
    output
}

/// Every rank got what it should, and all the same.
macro_rules! on_hosts {
    ($($name:ident $world:literal $hosts:literal $dealt:literal $backend:literal)*) => {$(
        #[test]
        fn $name() {
            let Some(ranks) = ranks($world, $hosts, $dealt) else { return };
            let job = ranks.start(|ctx| {
                let group = meet(ctx);
                assert_eq!(group.backend_name().unwrap(), $backend);
                every_reduction(&group)
            });
            let_in(&job);
            let digests = job.expect_all();
            assert!(digests.iter().all(|digest| *digest == digests[0]));
        }
    )*};
}

on_hosts! {
    two_ranks_on_each_of_two_hosts 4 2 false "mixed"
    ranks_that_are_dealt_out_to_two_hosts 4 2 true "mixed"
    three_ranks_on_each_of_two_hosts 6 2 false "mixed"
    two_ranks_on_each_of_three_hosts 6 3 false "mixed"
}

#[test]
fn hosts_with_one_rank_each_have_no_use_for_shared_memory() {
    let Some(ranks) = ranks(3, 3, false) else { return };
    let job = ranks.start(|ctx| {
        let group = meet(ctx);
        let mut sum = [group.rank().get()];
        group.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
        (group.backend_name().unwrap().to_owned(), sum[0])
    });
    let_in(&job);
    assert_eq!(job.expect_all(), vec![("tcp".to_owned(), 3); 3]);
}

#[test]
fn hosts_with_different_numbers_of_ranks_go_the_plain_way() {
    let Some(ranks) = ranks(3, 2, false) else { return };
    let job = ranks.start(|ctx| {
        let group = meet(ctx);
        let mut sum = [group.rank().get()];
        group.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
        let mut all = [0; 3];
        group.all_gather(&[sum[0] + group.rank().get()], &mut all).unwrap();
        (group.backend_name().unwrap().to_owned(), all)
    });
    let_in(&job);
    assert_eq!(job.expect_all(), vec![("tcp".to_owned(), [3, 4, 5]); 3]);
}

#[test]
fn parts_of_different_sizes_are_combined_too() {
    let Some(ranks) = ranks(4, 2, false) else { return };
    let job = ranks.start(|ctx| {
        let group = meet(ctx);
        let (me, world) = (group.rank().index(), group.world());
        let sizes: Vec<usize> = (0..world).map(|rank| 4 * (rank * 300 + 1)).collect();
        let all: Vec<Vec<u8>> = (0..world).map(|rank| bytes(rank, 1, sizes.iter().sum())).collect();
        let start = |rank: usize| sizes[..rank].iter().sum::<usize>();
        let part = |rank: usize| start(rank)..start(rank + 1);
        let parts: Vec<Source<'_>> =
            (0..world).map(|rank| Source::from(&all[me][part(rank)])).collect();
        let mut output = vec![0; sizes[me]];
        let (dtype, op, inputs) = (Dtype::F32, ReduceOp::Sum, Inputs::List(&parts));
        let target = Target::from(&mut output[..]);
        group.call(&Call::ReduceScatter { dtype, op, inputs, output: target }).unwrap();
        let mine: Vec<Vec<u8>> = all.iter().map(|it| it[part(me)].to_vec()).collect();
        assert_eq!(output, combine_in(&group, dtype, op, &mine));

        let mut gathered = vec![0; sizes.iter().sum()];
        let mut rest = Target::from(&mut gathered[..]);
        let mut targets = Vec::new();
        for &size in &sizes {
            targets.push(rest.slice(0..size));
            rest = rest.slice(size..rest.len());
        }
        let (input, outputs) = (Source::from(&all[me][part(me)]), Outputs::List(&targets));
        group.call(&Call::AllGather { dtype, input, outputs }).unwrap();
        let right: Vec<u8> = (0..world).flat_map(|rank| all[rank][part(rank)].to_vec()).collect();
        assert_eq!(gathered, right);
    });
    let_in(&job);
    job.expect_all();
}
