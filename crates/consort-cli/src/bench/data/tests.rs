use super::super::point::tests::point;
use super::*;

fn all(point: &Point, ranks: usize) -> Vec<Data> {
    (0..ranks).map(|rank| Data { point: point.clone(), rank, ranks }).collect()
}

fn contributions(all: &[Data]) -> Vec<Vec<u8>> {
    let one = |data: &Data| {
        let mut bytes = vec![0; data.contributed()];
        data.fill(&mut bytes);
        bytes
    };
    all.iter().map(one).collect()
}

/// What a rank has to receive, put together from the contributions without any of the code above.
fn moved(data: &Data, given: &[Vec<u8>]) -> Vec<u8> {
    let (rank, share) = (data.rank, data.share());
    let part = |from: usize, at: usize| &given[from][at * share..(at + 1) * share];
    match data.point.op {
        Op::Broadcast => given[0].clone(),
        Op::Scatter => part(0, rank).to_vec(),
        Op::AllToAll => (0..data.ranks).flat_map(|from| part(from, rank)).copied().collect(),
        Op::SendRecv => given[(rank + data.ranks - 1) % data.ranks].clone(),
        Op::Gather if rank != 0 => Vec::new(),
        _ => given.concat(),
    }
}

#[test]
fn what_is_moved_rightly_is_right_and_anything_else_is_wrong() {
    for op in [Op::Broadcast, Op::Scatter, Op::AllGather, Op::Gather, Op::AllToAll, Op::SendRecv] {
        for dtype in Dtype::ALL {
            let point = Point { dtype, ..point(op, 3000 * dtype.size()) }.rounded(3);
            let all = all(&point, 3);
            let given = contributions(&all);
            for data in &all {
                let mut result = moved(data, &given);
                assert!(data.is_right(&result), "{point} on rank {}", data.rank);
                let Some(last) = result.len().checked_sub(dtype.size()) else { continue };
                result.copy_within(..last, dtype.size());
                assert!(!data.is_right(&result), "{point} moved on by one");
                assert!(!data.is_right(&result[dtype.size()..]), "{point} cut short");
            }
        }
    }
}

#[test]
fn what_is_combined_rightly_is_right_and_a_rank_counted_twice_is_wrong() {
    use consort_sys::reduce::Kernel;
    use consort_sys::view::{Source, Target};
    let reductions = "sum avg product min max bit_and bit_or bit_xor premul_sum:0.5";
    for reduce in reductions.split(' ').map(|name| name.parse::<ReduceOp>().unwrap()) {
        for dtype in Dtype::ALL {
            let Ok(kernel) = Kernel::new(dtype, reduce, 3) else { continue };
            let point = Point { dtype, reduce, ..point(Op::AllReduce, 2000 * dtype.size()) };
            let all = all(&point, 3);
            let given = contributions(&all);
            let combine = |ranks: [usize; 3]| {
                let mut result = vec![0; point.bytes];
                let sources = ranks.map(|rank| Source::from(&given[rank][..]));
                kernel.reduce(&[Target::from(&mut result[..])], &sources);
                result
            };
            assert!(all[1].is_right(&combine([0, 1, 2])), "{point}");
            let twice = combine([0, 1, 1]);
            // Minimum, maximum and the like cannot always tell.
            if matches!(reduce, ReduceOp::Sum) && dtype != Dtype::Bool {
                assert!(!all[1].is_right(&twice), "{point}");
            }
        }
    }
}

#[test]
fn a_scattered_combination_is_each_ranks_own_part() {
    let point = point(Op::ReduceScatter, 12_000);
    let all = all(&point, 3);
    let given = contributions(&all);
    for data in &all {
        let mut result = Vec::new();
        for i in 0..1000 {
            let at = (data.rank * 1000 + i) * 4;
            let numbers = given.iter().map(|it| f32::from_ne_bytes(first(&it[at..])));
            result.extend(numbers.sum::<f32>().to_ne_bytes());
        }
        assert!(data.is_right(&result));
        let other = Data { rank: (data.rank + 1) % 3, ..data.clone() };
        assert!(!other.is_right(&result));
    }
}

#[test]
fn one_wrong_element_of_a_small_result_is_found_wherever_it_is() {
    let data = &all(&point(Op::Broadcast, 400), 2)[1];
    let mut given = contributions(&all(&point(Op::Broadcast, 400), 2)).swap_remove(0);
    assert!(data.is_right(&given));
    for at in 0..100 {
        let right: [u8; 4] = first(&given[at * 4..]);
        given[at * 4..at * 4 + 4].copy_from_slice(&99_f32.to_ne_bytes());
        assert!(!data.is_right(&given), "{at}");
        given[at * 4..at * 4 + 4].copy_from_slice(&right);
    }
}

#[test]
fn not_a_number_is_never_right() {
    let data = &all(&point(Op::AllReduce, 8), 2)[0];
    assert!(!data.is_right(&[0xff; 8]));
}

#[test]
fn a_barrier_gives_nothing_and_is_right() {
    let data = &all(&point(Op::Barrier, 0), 2)[0];
    assert!(data.is_right(&[]));
}
