//! A small transformer whose layers are parted among ranks, and which learns what one process with all of
//! it would learn.
//!
//! ```text
//! cargo build --release -p consort-cli -p consort-train --features consort-train/candle --example tensor_parallel --bins
//! target/release/consort run -n 4 -- target/release/examples/tensor_parallel
//! target/release/examples/tensor_parallel --dry-run 1024
//! ```
//!
//! The first matrix of a layer is parted by columns, so that every rank has some of the heads or of the
//! hidden numbers, all by itself. The second one is parted by rows, so that every rank has what belongs to its
//! own; what they make of it is added up by an all_reduce, forward, and so is the gradient of what went in,
//! backward. What is learned alike on every rank, as positions and biases are, is replicated: nothing is sent
//! forward, and its gradient is added up backward. Nothing else is sent.
//!
//! ```text
//!        ┌─ columns of rank 0 ─▶ heads 0, 1 ─▶ rows of rank 0 ─┐
//!   x ───┤                                                     ├─ all_reduce ─▶ + x
//!        └─ columns of rank 1 ─▶ heads 2, 3 ─▶ rows of rank 1 ─┘
//! ```

use candle_core::{D, Tensor, Var};
use candle_nn::ops::softmax;
use consort::{Group, ReduceOp};
use consort_train::candle::functional::{all_gather, all_reduce, backward, replicate};
use consort_train::{Error, Result};

#[allow(dead_code, reason = "each of the examples needs some of it")]
mod parts;

use parts::{descend, distance, inputs, weights};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => train(&consort::init()?),
        ["--dry-run", ranks] => match ranks.parse() {
            Ok(ranks) => dry_run(ranks),
            Err(_) => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ! {
    eprintln!("usage: tensor_parallel [--dry-run RANKS]");
    std::process::exit(2)
}

/// All ranks train one model. Beside it every rank trains the whole of it alone, to compare.
fn train(group: &Group) -> Result<()> {
    let sizes = Sizes { heads: 12, head: 4, hidden: 96, blocks: 2 };
    let alone = Group::fake(0, 1)?;
    let (model, whole) = (Model::new(sizes, group)?, Model::new(sizes, &alone)?);
    for step in 0..STEPS {
        let (together, by_itself) = (model.step(step, group)?, whole.step(step, &alone)?);
        assert!((together - by_itself).abs() < 1e-4, "{together} is not {by_itself}");
        if group.rank() == 0 && (step + 1) % 10 == 0 {
            println!("step {}: loss {together:.5}, in one process {by_itself:.5}", step + 1);
        }
    }
    let far = model.distance(&whole, group)?;
    assert!(far < 1e-4, "weights are {far} apart");
    if group.rank() == 0 {
        let (mine, all) = (model.parameters(), whole.parameters());
        println!(
            "{} ranks have {mine} of {all} weights each, at most {far:.1e} from those of one process",
            group.world()
        );
    }
    Ok(())
}

/// What a step would send if there were so many ranks.
fn dry_run(ranks: u32) -> Result<()> {
    let began = std::time::Instant::now();
    let group = Group::fake(0, ranks)?;
    let world = group.world();
    let model = Model::new(Sizes { heads: world, head: 2, hidden: 8 * world, blocks: 4 }, &group)?;
    model.step(0, &group)?;
    println!(
        "{ranks} ranks with {} of {} weights each; a step of {} positions:\n",
        model.parameters(),
        model.sizes.parameters(),
        EXAMPLES * LENGTH
    );
    println!("{}", group.traffic().expect("nobody else is there"));
    println!("\ntried out in {:.1?}", began.elapsed());
    Ok(())
}

/// How large the whole model is.
#[derive(Clone, Copy)]
struct Sizes {
    heads: usize,
    /// How many numbers a head looks at.
    head: usize,
    hidden: usize,
    blocks: usize,
}

impl Sizes {
    fn width(self) -> usize {
        self.heads * self.head
    }

    fn parameters(self) -> usize {
        let width = self.width();
        LENGTH * width + self.blocks * (4 * width * width + 2 * width * self.hidden + width)
    }
}

/// A rank's part of the model.
struct Model {
    sizes: Sizes,
    /// Where in the row something is: the same on all ranks.
    positions: Var,
    blocks: Vec<Block>,
}

/// Queries, keys, values and the way in by columns; the ways out by rows; and what is added to the second
/// sum, the same on all ranks: a rank that added it before the sum would have it added by all.
struct Block {
    by_columns: [Var; 4],
    by_rows: [Var; 2],
    bias: Var,
}

impl Model {
    fn new(sizes: Sizes, group: &Group) -> Result<Self> {
        let (rank, world, width) = (group.rank().index(), group.world(), sizes.width());
        if !sizes.heads.is_multiple_of(world) {
            let what = format!("{world} ranks cannot share {} heads equally", sizes.heads);
            return Err(Error::Argument(what));
        }
        let part = |all: usize| rank * all / world..(rank + 1) * all / world;
        let block = |block: usize| {
            let columns =
                |name, count| weights(&format!("{name} {block}"), 0..width, part(count), width);
            let rows =
                |name, count| weights(&format!("{name} {block}"), part(count), 0..width, count);
            Ok(Block {
                by_columns: [
                    columns("queries", width)?,
                    columns("keys", width)?,
                    columns("values", width)?,
                    columns("in", sizes.hidden)?,
                ],
                by_rows: [rows("together", width)?, rows("out", sizes.hidden)?],
                bias: weights(&format!("bias {block}"), 0..1, 0..width, width)?,
            })
        };
        let positions = weights("positions", 0..LENGTH, 0..width, width)?;
        let blocks = (0..sizes.blocks).map(block).collect::<Result<_>>()?;
        Ok(Self { sizes, positions, blocks })
    }

    /// Learns from one batch, the same on all ranks. Gives the loss before.
    fn step(&self, step: usize, group: &Group) -> Result<f32> {
        let shape = (EXAMPLES, LENGTH, self.sizes.width());
        let x = inputs(step, 0..EXAMPLES * LENGTH, self.sizes.width())?.reshape(shape)?;
        // What it is to say: the numbers of the place before, the other way round.
        let wanted =
            Tensor::cat(&[x.narrow(1, LENGTH - 1, 1)?, x.narrow(1, 0, LENGTH - 1)?], 1)?.neg()?;
        let loss = (self.forward(&x, group)? - wanted)?.sqr()?.mean_all()?;
        // Every rank has the same loss, and what is differentiated is the sum of all.
        let gradients = backward(&(&loss / group.world() as f64)?)?;
        descend(self.variables(), &gradients, RATE)?;
        Ok(loss.to_scalar()?)
    }

    fn forward(&self, x: &Tensor, group: &Group) -> Result<Tensor> {
        let mut x = x.broadcast_add(&replicate(&self.positions, group)?)?;
        for block in &self.blocks {
            x = (&x + all_reduce(&self.attend(block, &x)?, ReduceOp::Sum, group)?.wait()?)?;
            x = (&x + all_reduce(&think(block, &x)?, ReduceOp::Sum, group)?.wait()?)?
                .broadcast_add(&replicate(&block.bias, group)?)?;
        }
        Ok(x)
    }

    /// What this rank's heads see.
    fn attend(
        &self,
        Block { by_columns: [queries, keys, values, _], by_rows: [together, _], .. }: &Block,
        x: &Tensor,
    ) -> Result<Tensor> {
        // Examples, heads, positions, numbers.
        let heads = |weights: &Var| {
            x.broadcast_matmul(weights)?
                .reshape((EXAMPLES, LENGTH, (), self.sizes.head))?
                .transpose(1, 2)?
                .contiguous()
        };
        let (queries, keys, values) = (heads(queries)?, heads(keys)?, heads(values)?);
        let scores = (queries.matmul(&keys.t()?.contiguous()?)? / (self.sizes.head as f64).sqrt())?;
        let seen = softmax(&scores, D::Minus1)?.matmul(&values)?;
        let rows = seen.transpose(1, 2)?.reshape((EXAMPLES, LENGTH, ()))?;
        Ok(rows.broadcast_matmul(together)?)
    }

    fn variables(&self) -> impl Iterator<Item = &Var> {
        let blocks = self.blocks.iter().flat_map(|Block { by_columns, by_rows, bias }| {
            by_columns.iter().chain(by_rows).chain([bias])
        });
        std::iter::once(&self.positions).chain(blocks)
    }

    fn parameters(&self) -> usize {
        self.variables().map(|variable| variable.elem_count()).sum()
    }

    /// How far all ranks' parts, put together, are from a whole model.
    fn distance(&self, whole: &Self, group: &Group) -> Result<f32> {
        let mut far = distance(&self.positions, &whole.positions)?;
        for (part, whole) in self.blocks.iter().zip(&whole.blocks) {
            far = far.max(distance(&part.bias, &whole.bias)?);
            let columns = part.by_columns.iter().zip(&whole.by_columns).map(|pair| (pair, 1));
            let rows = part.by_rows.iter().zip(&whole.by_rows).map(|pair| (pair, 0));
            for ((part, whole), dim) in columns.chain(rows) {
                let all = all_gather(&part.as_detached_tensor(), dim, group)?.wait()?;
                far = far.max(distance(&all, whole)?);
            }
        }
        Ok(far)
    }
}

/// What this rank's hidden numbers make of it.
fn think(block: &Block, x: &Tensor) -> Result<Tensor> {
    let ([_, _, _, inward], [_, outward]) = (&block.by_columns, &block.by_rows);
    Ok(x.broadcast_matmul(inward)?.gelu()?.broadcast_matmul(outward)?)
}

const STEPS: usize = 60;
const EXAMPLES: usize = 4;
const LENGTH: usize = 6;
const RATE: f64 = 0.2;
