//! What ranks compute together, with gradients.

use candle_core::{D, DType, Tensor};
use consort::functional::Collective;
use consort::{Group, ReduceOp};
use consort_train::Result;
use consort_train::candle::functional::{
    Pending, all_gather, all_gather_coalesced, all_reduce, all_reduce_coalesced, all_to_all,
    all_to_all_uneven, broadcast, coalesced, permute, reduce, reduce_scatter,
    reduce_scatter_coalesced, replicate,
};

use super::meet::circle;

/// The shapes of what a rank of a group of so many has.
type Shapes = Box<dyn Fn(usize, usize) -> Vec<Vec<usize>>>;
/// What is made of them.
type Forward = Box<dyn Fn(&[Tensor], &Group) -> Result<Vec<Tensor>>>;

/// Something that ranks compute of variables, each of its own.
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) shapes: Shapes,
    pub(crate) forward: Forward,
    /// Whether the variables are the same on all ranks, and change on all of them at once.
    pub(crate) is_shared: bool,
}

impl Program {
    /// With one variable of a shape that depends on the number of ranks.
    fn one(
        name: impl Into<String>,
        shape: impl Fn(usize) -> Vec<usize> + 'static,
        forward: impl Fn(&Tensor, &Group) -> Result<Tensor> + 'static,
    ) -> Self {
        let shapes = move |_, world| vec![shape(world)];
        let forward = move |xs: &[Tensor], group: &Group| Ok(vec![forward(&xs[0], group)?]);
        Self {
            name: name.into(),
            shapes: Box::new(shapes),
            forward: Box::new(forward),
            is_shared: false,
        }
    }

    /// With variables that are the same on all ranks.
    fn shared(self) -> Self {
        Self { is_shared: true, ..self }
    }

    /// With several.
    fn several(
        name: impl Into<String>,
        shapes: impl Fn(usize) -> Vec<Vec<usize>> + 'static,
        forward: impl Fn(&[Tensor], &Group) -> Result<Vec<Tensor>> + 'static,
    ) -> Self {
        let shapes = move |_, world| shapes(world);
        Self {
            name: name.into(),
            shapes: Box::new(shapes),
            forward: Box::new(forward),
            is_shared: false,
        }
    }
}

/// Every call that has a gradient, by itself, in a group of so many.
pub(crate) fn calls(world: usize) -> Vec<Program> {
    let mut all = Vec::new();
    let linear = [ReduceOp::Sum, ReduceOp::Avg, ReduceOp::PremulSum(-1.5)];
    for op in linear {
        all.push(Program::one(format!("all_reduce({op:?})"), table, move |x, group| {
            all_reduce(x, op, group)?.wait()
        }));
        for dim in 0..3 {
            let name = format!("reduce_scatter({op:?}) along {dim}");
            let shape = move |world| with(dim, if world < 3 { 2 * world } else { world });
            all.push(Program::one(name, shape, move |x, group| {
                reduce_scatter(x, op, dim, group)?.wait()
            }));
        }
    }
    for root in 0..world as u32 {
        for op in linear {
            let name = format!("reduce({op:?}) to {root}");
            all.push(Program::one(name, table, move |x, group| reduce(x, op, root, group)?.wait()));
        }
        let name = format!("broadcast from {root}");
        all.push(Program::one(name, table, move |x, group| broadcast(x, root, group)?.wait()));
    }
    for dim in 0..3 {
        let name = format!("all_gather along {dim}");
        all.push(Program::one(
            name,
            |_| vec![2, 1, 3],
            move |x, group| all_gather(x, dim, group)?.wait(),
        ));
    }
    all.push(Program::one(
        "all_to_all",
        |world| vec![world, 2],
        |x, group| all_to_all(x, group)?.wait(),
    ));
    all.push(Program {
        name: "all_to_all_uneven".to_owned(),
        shapes: Box::new(|rank, world| vec![vec![rows_to(rank, world).iter().sum(), 2]]),
        forward: Box::new(|xs, group| {
            let (rank, world) = (group.rank().index(), group.world());
            let (to, from) = (rows_to(rank, world), rows_from(rank, world));
            Ok(vec![all_to_all_uneven(&xs[0], &to, &from, group)?.wait()?])
        }),
        is_shared: false,
    });
    for (name, pairs) in permutations(world) {
        all.push(Program::one(format!("permute {name}"), table, move |x, group| {
            permute(x, &pairs, group)?.wait()
        }));
    }
    all.push(Program::one("replicate", table, |x, group| replicate(x, group)).shared());
    all.push(Program::several(
        "coalesced",
        |world| vec![vec![2, 2], vec![3], vec![2 * world], vec![world, 1], vec![2]],
        |xs, group| {
            let calls = [
                (Collective::AllReduce { op: ReduceOp::Avg }, &xs[0]),
                (Collective::Permute { pairs: pairs(&circle(group.world())) }, &xs[1]),
                (Collective::ReduceScatter { op: ReduceOp::Sum, dim: 0 }, &xs[2]),
                (Collective::AllToAll, &xs[3]),
                (Collective::Broadcast { root: 0.into() }, &xs[4]),
                (Collective::AllGather { dim: 1 }, &xs[0]),
            ];
            coalesced(&calls, group)?.wait()
        },
    ));
    all.push(Program::several(
        "coalesced of one kind",
        |world| vec![vec![2, world], vec![world]],
        |xs, group| {
            let (a, b) = (&xs[0], &xs[1]);
            let mut all = all_reduce_coalesced(&[a, b], ReduceOp::Sum, group)?.wait()?;
            all.extend(all_gather_coalesced(&[(a, 1), (b, 0)], group)?.wait()?);
            all.extend(reduce_scatter_coalesced(&[(a, 1), (b, 0)], ReduceOp::Avg, group)?.wait()?);
            Ok(all)
        },
    ));
    all
}

/// Calls among other operations: what goes in, comes out and comes back lies in every order, is used more
/// than once, or not at all.
pub(crate) fn compositions() -> Vec<Program> {
    let sum = ReduceOp::Sum;
    let sum_of = move |x: &Tensor, group: &Group| all_reduce(x, sum, group)?.wait();
    vec![
        Program::one("a transposed input", |_| vec![2, 3], move |x, group| sum_of(&x.t()?, group)),
        Program::one(
            "a permuted input, gathered along the middle",
            |_| vec![2, 1, 3],
            |x, group| all_gather(&x.permute((2, 0, 1))?, 1, group)?.wait(),
        ),
        Program::one(
            "a narrowed input",
            |_| vec![3, 4],
            |x, group| all_gather(&x.narrow(1, 1, 2)?, D::Minus1, group)?.wait(),
        ),
        Program::one(
            "the last rows of an input",
            |world| vec![world + 1, 2],
            |x, group| all_to_all(&x.narrow(0, 1, group.world())?, group)?.wait(),
        ),
        Program::one(
            "an input that is one row many times",
            |_| vec![1, 3],
            |x, group| {
                let rows = x.broadcast_as((group.world(), 3))?;
                reduce_scatter(&rows, ReduceOp::Avg, 0, group)?.wait()
            },
        ),
        Program::one(
            "an input that is one column many times",
            |_| vec![3, 1],
            |x, group| {
                let columns = x.broadcast_as((3, 2 * group.world()))?;
                reduce_scatter(&columns, ReduceOp::Sum, 1, group)?.wait()
            },
        ),
        Program::one(
            "an input that is one number many times",
            |_| vec![],
            |x, group| permute(&x.broadcast_as((2, 2))?, &circle(group.world()), group)?.wait(),
        ),
        Program::one(
            "a gradient that is transposed",
            |_| vec![2, 3],
            move |x, group| Ok(sum_of(x, group)?.t()?),
        ),
        Program::one(
            "a gradient that lies in columns, scattered",
            |_| vec![2, 3],
            |x, group| Ok(all_gather(x, 1, group)?.wait()?.t()?.tanh()?),
        ),
        Program::one(
            "a gradient that is one number many times",
            |_| vec![2, 3],
            |x, group| {
                let all = all_gather(x, 1, group)?.wait()?;
                Ok(all.tanh()?.sum_all()?)
            },
        ),
        Program::one(
            "a gradient that nothing was multiplied to",
            |_| vec![2, 3],
            |x, group| {
                let all = all_gather(x, 1, group)?.wait()?;
                Ok((all.sum_all()? * 0.1)?)
            },
        ),
        Program::one(
            "a gradient of a part",
            |_| vec![2, 2],
            |x, group| {
                let all = all_gather(x, 0, group)?.wait()?;
                Ok(all.narrow(0, 1, 2 * group.world() - 1)?)
            },
        ),
        Program::one(
            "a variable used directly and in a call",
            |_| vec![2, 3],
            move |x, group| Ok((sum_of(x, group)? * x)?),
        ),
        Program::one(
            "a variable used in several calls",
            |_| vec![2, 3],
            move |x, group| {
                let gathered = all_gather(x, 0, group)?;
                let summed = sum_of(x, group)?;
                let rows = gathered.get()?.narrow(0, 0, 2)?;
                Ok(((rows * summed)? + permute(x, &circle(group.world()), group)?.get()?)?)
            },
        ),
        Program::one(
            "a variable and what was made of it",
            |_| vec![2, 3],
            move |x, group| {
                let direct = all_reduce(x, sum, group)?;
                let later = all_reduce(&x.sqr()?, ReduceOp::Avg, group)?;
                Ok((direct.wait()? + later.wait()?)?)
            },
        ),
        Program::one(
            "a result used several times",
            |_| vec![2, 3],
            move |x, group| {
                let y = sum_of(x, group)?;
                Ok(((y.sqr()? + &y)? * y.tanh()?)?)
            },
        ),
        Program::one(
            "a call of the same tensor twice",
            |_| vec![4],
            move |x, group| {
                let x = x.sin()?;
                Ok((sum_of(&x, group)? * all_reduce(&x, ReduceOp::Avg, group)?.wait()?)?)
            },
        ),
        Program::one(
            "a chain of calls",
            |world| vec![world, 2],
            |x, group| {
                let all = all_gather(x, 1, group)?.wait()?.tanh()?;
                let mine = reduce_scatter(&all, ReduceOp::Sum, 1, group)?.wait()?;
                let turned = permute(&mine.sin()?, &circle(group.world()), group)?.wait()?;
                all_to_all(&turned, group)?.wait()
            },
        ),
        Program::one(
            "calls of calls, with nothing between",
            |_| vec![2, 2],
            |x, group| {
                let all = all_gather(x, 0, group)?.wait()?;
                let sums = all_reduce(&all, ReduceOp::Avg, group)?.wait()?;
                reduce_scatter(&sums, ReduceOp::Sum, 0, group)?.wait()
            },
        ),
        Program::one(
            "a view of what is not there yet",
            |_| vec![2, 3],
            |x, group| {
                let all: Pending =
                    all_gather(x, 1, group)?.map(|all| Ok(all.t()?.narrow(0, 1, 2)?));
                all.wait()
            },
        ),
        Program::several(
            "two views of what is not there yet",
            |_| vec![vec![2, 3]],
            |xs, group| {
                let all = all_gather(&xs[0], 1, group)?;
                let first: Pending = all.clone().map(|all| Ok(all.narrow(1, 0, 2)?));
                let second: Pending = all.clone().map(|all| Ok(all.t()?));
                let (second, first) = (second.wait()?, first.wait()?);
                Ok(vec![first, second, all.wait()?])
            },
        ),
        Program::several(
            "results used in another order",
            |_| vec![vec![4], vec![3]],
            |xs, group| {
                let first = all_reduce(&xs[0], ReduceOp::Sum, group)?;
                let second = all_reduce(&xs[1], ReduceOp::Avg, group)?;
                let third = broadcast(&xs[0], 0, group)?;
                Ok(vec![third.wait()?, second.wait()?, first.wait()?])
            },
        ),
        Program::one(
            "a replica in parts of a sum",
            |_| vec![3],
            move |x, group| {
                let x = replicate(x, group)?;
                let mine = (&x * f64::from(group.rank().get() + 1))?;
                sum_of(&mine.sin()?, group)
            },
        )
        .shared(),
        Program::one(
            "numbers of another kind in between",
            |_| vec![3],
            |x, group| {
                let twice = all_reduce(&x.to_dtype(DType::F64)?, ReduceOp::Sum, group)?.wait()?;
                Ok(twice.to_dtype(x.dtype())?)
            },
        ),
    ]
}

/// Who sends to whom: all, some, oneself, nobody.
fn permutations(world: usize) -> Vec<(&'static str, Vec<(u32, u32)>)> {
    let all = circle(world);
    let last = world as u32 - 1;
    vec![
        ("in a circle", all.clone()),
        ("in a row", all[..world - 1].to_vec()),
        ("to oneself", (0..world as u32).map(|rank| (rank, rank)).collect()),
        ("from the last to the first", vec![(last, 0)]),
        ("from the first to itself", vec![(0, 0)]),
        ("of nobody", Vec::new()),
    ]
}

/// The same for a [`Collective`].
pub(crate) fn pairs(of: &[(u32, u32)]) -> Vec<(consort::Rank, consort::Rank)> {
    of.iter().map(|&(from, to)| (from.into(), to.into())).collect()
}

/// How many rows a rank sends to another. Some send nothing.
fn rows(from: usize, to: usize) -> usize {
    (2 * from + to + 1) % 3
}

/// How many rows a rank sends to each.
pub(crate) fn rows_to(rank: usize, world: usize) -> Vec<usize> {
    (0..world).map(|to| rows(rank, to)).collect()
}

/// How many rows a rank gets from each.
pub(crate) fn rows_from(rank: usize, world: usize) -> Vec<usize> {
    (0..world).map(|from| rows(from, rank)).collect()
}

fn table(_: usize) -> Vec<usize> {
    vec![2, 3]
}

/// A shape of three dimensions, of which one has this length.
fn with(dim: usize, len: usize) -> Vec<usize> {
    let mut shape = vec![2, 1, 2];
    if dim == 1 {
        shape[0] = 1;
    }
    shape[dim] = len;
    shape
}
