//! Models whose layers are parted among ranks compute what one process does with the whole.

use candle_core::{DType, Tensor, Var, backprop::GradStore};
use consort::{Group, Mesh, ReduceOp};
use consort_testkit::{Case, Context, conformance};
use consort_train::candle::functional::{
    Pending, all_gather, all_reduce, all_to_all_uneven, backward, permute, replicate,
};

use super::meet::{
    assert_close, bits, circle, coded_tensor, coded_var, gradient, loss_of, meet, numbers,
};
use super::programs::{rows_from, rows_to};

conformance! { [shm tcp mixed in_process]
    layers_in_columns_and_rows_learn_what_one_process_learns
    tokens_that_visit_experts_learn_what_one_process_learns
    large_tensors_go_there_and_back_all_at_once
}
conformance! { [shm in_process]
    layers_gathered_from_shards_learn_what_one_process_learns
    numbers_that_go_round_add_up_as_in_one_process
    what_only_moves_comes_out_with_the_same_bits
    gradients_stay_among_the_ranks_that_took_part
}

/// With the first two ranks, the first three, and all four.
fn in_groups_of_each_size(ctx: &Context, body: impl Fn(&Group)) {
    let group = meet(ctx);
    for world in 2..=4 {
        let first: Vec<u32> = (0..world).collect();
        if ctx.rank() < world {
            body(&group.subgroup(&first).unwrap());
        }
    }
}

/// A variable of the whole, and a rank's part of it along a dimension.
fn part_of(whole: &Var, dim: usize, group: &Group) -> Var {
    Var::from_tensor(&slice(whole, dim, group)).unwrap()
}

fn slice(whole: &Tensor, dim: usize, group: &Group) -> Tensor {
    let len = whole.dim(dim).unwrap() / group.world();
    whole.narrow(dim, group.rank().index() * len, len).unwrap().contiguous().unwrap()
}

/// The gradient of a part is that part of the gradient of the whole.
fn assert_is_part(part: (&GradStore, &Var), whole: (&GradStore, &Var), dim: usize, group: &Group) {
    let expected = slice(&gradient(whole.0, whole.1), dim, group);
    let what = format!("along {dim} of {} ranks", group.world());
    assert_close(&gradient(part.0, part.1), &expected, 1e-12, &what);
}

/// The sum of all ranks' losses, computed by one.
fn total(losses: impl Iterator<Item = Tensor>) -> Tensor {
    losses.reduce(|sum, loss| (sum + loss).unwrap()).unwrap()
}

fn layers_in_columns_and_rows_learn_what_one_process_learns(case: Case) {
    case.run(4, |ctx| {
        in_groups_of_each_size(ctx, |group| {
            let world = group.world() as f64;
            // The same on all ranks: an input that is learned, too, and a bias.
            let x = coded_var(0, 1, &[5, 8], DType::F64);
            let bias = coded_var(0, 2, &[3], DType::F64);
            let (first, last) =
                (coded_var(0, 3, &[8, 12], DType::F64), coded_var(0, 4, &[12, 3], DType::F64));

            let (columns, rows) = (part_of(&first, 1, group), part_of(&last, 0, group));
            let hidden = replicate(&x, group).unwrap().matmul(&columns).unwrap().tanh().unwrap();
            let y = all_reduce(&hidden.matmul(&rows).unwrap(), ReduceOp::Sum, group).unwrap();
            let y = y.wait().unwrap().broadcast_add(&replicate(&bias, group).unwrap()).unwrap();
            let loss = (loss_of(&y, 0, 7).unwrap() / world).unwrap();
            let gradients = backward(&loss).unwrap();

            let whole = x.matmul(&first).unwrap().tanh().unwrap().matmul(&last).unwrap();
            let whole = whole.broadcast_add(&bias).unwrap();
            let alone = loss_of(&whole, 0, 7).unwrap().backward().unwrap();
            assert_close(&y, &whole, 1e-12, "the output");
            assert_is_part((&gradients, &columns), (&alone, &first), 1, group);
            assert_is_part((&gradients, &rows), (&alone, &last), 0, group);
            for var in [&x, &bias] {
                let (ours, expected) = (gradient(&gradients, var), gradient(&alone, var));
                assert_close(&ours, &expected, 1e-12, "what all ranks have");
            }
        });
    });
}

fn layers_gathered_from_shards_learn_what_one_process_learns(case: Case) {
    case.run(4, |ctx| {
        in_groups_of_each_size(ctx, |group| {
            let (rank, world) = (group.rank().index(), group.world());
            let first = coded_var(0, 1, &[12, 24], DType::F64);
            let last = coded_var(0, 2, &[24, 2], DType::F64);
            // Every rank has examples of its own.
            let examples = |rank| coded_tensor(rank, 3, &[4, 12], DType::F64);
            let forward = |rank: usize, first: &Tensor, last: &Tensor| {
                let hidden = examples(rank).matmul(first).unwrap().tanh().unwrap();
                hidden.matmul(last).unwrap()
            };

            for dim in [0, 1] {
                let shard = part_of(&first, dim, group);
                let other = part_of(&last, 0, group);
                // Both are on their way at once.
                let gathered = all_gather(&shard, dim, group).unwrap();
                let others = all_gather(&other, 0, group).unwrap();
                assert_eq!(bits(gathered.get().unwrap()), bits(&first));
                assert_eq!(bits(others.get().unwrap()), bits(&last));
                let y = forward(rank, &gathered.wait().unwrap(), &others.wait().unwrap());
                let gradients = backward(&loss_of(&y, rank, 7).unwrap()).unwrap();

                assert_eq!(bits(&y), bits(&forward(rank, &first, &last)));
                let of_rank = |rank| loss_of(&forward(rank, &first, &last), rank, 7).unwrap();
                let alone = total((0..world).map(of_rank)).backward().unwrap();
                assert_is_part((&gradients, &shard), (&alone, &first), dim, group);
                assert_is_part((&gradients, &other), (&alone, &last), 0, group);
            }
        });
    });
}

/// Rows go to the ranks that they were sorted for, are changed by what those have learned, and come home.
fn tokens_that_visit_experts_learn_what_one_process_learns(case: Case) {
    case.run(4, |ctx| {
        in_groups_of_each_size(ctx, |group| {
            let (rank, world) = (group.rank().index(), group.world());
            let expert = |at| coded_var(at, 1, &[3], DType::F64);
            let tokens = |at| {
                let count: usize = rows_to(at, world).iter().sum();
                coded_var(at, 2, &[count, 3], DType::F64)
            };
            let (mine, knows) = (tokens(rank), expert(rank));
            let (to, from) = (rows_to(rank, world), rows_from(rank, world));
            assert!(to.contains(&0) || from.contains(&0) || world == 2, "all send to all");
            let visitors = all_to_all_uneven(&mine, &to, &from, group).unwrap().wait().unwrap();
            let changed = visitors.broadcast_mul(&knows).unwrap().tanh().unwrap();
            let home = all_to_all_uneven(&changed, &from, &to, group).unwrap().wait().unwrap();
            let gradients = backward(&loss_of(&home, rank, 7).unwrap()).unwrap();

            let all: Vec<Var> = (0..world).map(tokens).collect();
            let experts: Vec<Var> = (0..world).map(expert).collect();
            let home_of = |at: usize| {
                let (counts, mut begin) = (rows_to(at, world), 0);
                let visits = counts.into_iter().zip(&experts).map(|(count, expert)| {
                    let rows = all[at].narrow(0, begin, count).unwrap();
                    begin += count;
                    rows.broadcast_mul(expert).unwrap().tanh().unwrap()
                });
                Tensor::cat(&visits.collect::<Vec<_>>(), 0).unwrap()
            };
            let losses = (0..world).map(|at| loss_of(&home_of(at), at, 7).unwrap());
            let alone = total(losses).backward().unwrap();
            assert_eq!(bits(&home), bits(&home_of(rank)));
            // Each token is on one path only: there is nothing to be added up in another order.
            assert_eq!(bits(&gradient(&gradients, &mine)), bits(&gradient(&alone, &all[rank])));
            let (ours, expected) = (gradient(&gradients, &knows), gradient(&alone, &experts[rank]));
            assert_close(&ours, &expected, 1e-12, "an expert");
        });
    });
}

fn numbers_that_go_round_add_up_as_in_one_process(case: Case) {
    case.run(4, |ctx| {
        in_groups_of_each_size(ctx, |group| {
            let (rank, world) = (group.rank().index(), group.world());
            let all: Vec<Var> =
                (0..world).map(|at| coded_var(at, 1, &[2, 3], DType::F64)).collect();
            let mut going = all[rank].as_tensor().clone();
            let mut sum = going.sin().unwrap();
            for turn in 1..world {
                going = permute(&going, &circle(world), group).unwrap().wait().unwrap();
                sum = ((sum * 0.75).unwrap() + (going.sin().unwrap() * turn as f64).unwrap())
                    .unwrap();
            }
            let gradients = backward(&loss_of(&sum, rank, 7).unwrap()).unwrap();

            let sum_of = |at: usize| {
                let own = all[at].sin().unwrap();
                (1..world).fold(own, |sum, turn| {
                    let other = all[(at + world - turn) % world].sin().unwrap();
                    ((sum * 0.75).unwrap() + (other * turn as f64).unwrap()).unwrap()
                })
            };
            let losses = (0..world).map(|at| loss_of(&sum_of(at), at, 7).unwrap());
            let alone = total(losses).backward().unwrap();
            assert_eq!(bits(&sum), bits(&sum_of(rank)));
            let (ours, expected) = (gradient(&gradients, &all[rank]), gradient(&alone, &all[rank]));
            assert_close(&ours, &expected, 1e-12, "what went round");
        });
    });
}

/// Numbers that no two dtypes round alike.
fn what_only_moves_comes_out_with_the_same_bits(case: Case) {
    case.run(4, |ctx| {
        in_groups_of_each_size(ctx, |group| {
            let (rank, world) = (group.rank().index(), group.world());
            let odd = |at: usize| {
                let x = coded_tensor(at, 5, &[world, 2, 3], DType::F64);
                Var::from_tensor(&(x / 3.0).unwrap().sin().unwrap()).unwrap()
            };
            let (x, all) = (odd(rank), (0..world).map(|at| odd(at).detach()).collect::<Vec<_>>());
            let weights = |at: usize| {
                let weights = coded_tensor(at, 6, &[world, 2, 3], DType::F64);
                (weights / 7.0).unwrap()
            };
            // There and back again, whatever the way: what comes back is the weight.
            for dim in 0..3 {
                let joined = all_gather(&x, dim, group).unwrap().wait().unwrap();
                assert_eq!(bits(&joined), bits(&Tensor::cat(&all, dim).unwrap()));
                let own = joined.narrow(dim, rank * x.dim(dim).unwrap(), x.dim(dim).unwrap());
                let loss = (own.unwrap() * weights(rank)).unwrap().sum_all().unwrap();
                let gradients = backward(&loss).unwrap();
                assert_eq!(bits(&gradient(&gradients, &x)), bits(&weights(rank)));
            }
            let next = permute(&x, &circle(world), group).unwrap().wait().unwrap();
            assert_eq!(bits(&next), bits(&all[(rank + world - 1) % world]));
            let loss = (next * weights(rank)).unwrap().sum_all().unwrap();
            let gradients = backward(&loss).unwrap();
            assert_eq!(bits(&gradient(&gradients, &x)), bits(&weights((rank + 1) % world)));
            assert!(numbers(&x).iter().any(|number| f64::from(*number as f32) != *number));
        });
    });
}

/// More than the buffers between ranks hold, and all of it on its way at the same time.
fn large_tensors_go_there_and_back_all_at_once(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let (rank, layers) = (ctx.rank() as usize, 6);
        let shards: Vec<Var> =
            (0..layers).map(|at| coded_var(rank, at, &[300, 200], DType::F32)).collect();
        let gathered: Vec<_> =
            shards.iter().map(|shard| all_gather(shard, 1, &group).unwrap()).collect();
        let mut loss: Option<Tensor> = None;
        for (at, all) in gathered.into_iter().enumerate() {
            let all = all.wait().unwrap();
            for other in 0..3 {
                let expected = coded_tensor(other, at, &[300, 200], DType::F32);
                let part = all.narrow(1, 200 * other, 200).unwrap();
                assert_eq!(bits(&part), bits(&expected));
            }
            // Each rank has its own weight for each rank's part.
            let weights = |of: usize| ((rank + 1) * 10_usize.pow(of as u32) + at) as f32;
            let row: Vec<f32> = (0..600).map(|column| weights(column / 200)).collect();
            let row = Tensor::new(row, all.device()).unwrap();
            let sum = all.broadcast_mul(&row).unwrap().sum_all().unwrap();
            loss = Some(loss.map_or(sum.clone(), |loss| (loss + &sum).unwrap()));
        }
        let gradients = backward(&loss.unwrap()).unwrap();
        for (at, shard) in shards.iter().enumerate() {
            let expected = (6 * 10_usize.pow(ctx.rank()) + 3 * at) as f64;
            let all = numbers(&gradient(&gradients, shard));
            assert!(all.iter().all(|number| *number == expected), "layer {at}");
        }
    });
}

/// Rows of a mesh part a layer, and its columns part the examples; and lists of ranks do the same.
fn gradients_stay_among_the_ranks_that_took_part(case: Case) {
    case.run(4, |ctx| {
        let group = meet(ctx);
        let mesh = Mesh::new(&group, &[2, 2], &["data", "tensor"]).unwrap();
        let (row, column) = ((ctx.rank() / 2) as usize, (ctx.rank() % 2) as usize);
        let x = coded_var(ctx.rank() as usize, 1, &[3], DType::F64);
        let of = |rank: usize| numbers(&coded_tensor(rank, 1, &[3], DType::F64));
        let sum_of = |ranks: [usize; 2]| -> Vec<f64> {
            of(ranks[0]).iter().zip(of(ranks[1])).map(|(a, b)| a + b).collect()
        };
        let weight = f64::from(ctx.rank() + 1);
        let check = |y: consort_train::Result<Pending>, ranks: [usize; 2]| {
            let y = y.unwrap().wait().unwrap();
            assert_eq!(numbers(&y), sum_of(ranks));
            let loss = (y.sum_all().unwrap() * weight).unwrap();
            let expected = (ranks[0] + ranks[1] + 2) as f64;
            assert_eq!(numbers(&gradient(&backward(&loss).unwrap(), &x)), [expected; 3]);
        };
        let sum = ReduceOp::Sum;
        check(all_reduce(&x, sum, (&mesh, "tensor")), [2 * row, 2 * row + 1]);
        check(all_reduce(&x, sum, (&mesh, 0)), [column, column + 2]);
        check(
            all_reduce(&x, sum, (&group, &[[0, 3], [1, 2]])),
            match ctx.rank() {
                0 | 3 => [0, 3],
                _ => [1, 2],
            },
        );
        // Others take no part, forward or backward: they are at the barrier.
        if ctx.rank() >= 2 {
            check(all_reduce(&x, sum, (&group, &[3, 2])), [2, 3]);
        }
        group.barrier().unwrap();
    });
}
