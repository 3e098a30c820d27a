//! Training that goes on when a rank dies, and takes another in.
//!
//! Every rank fits the same line to points of its own, and all take the average of their gradients. In
//! the middle of it rank 1 is killed. The others make their group smaller and go on with the step they
//! were in; the launcher starts another in its stead, which waits to be taken in, and is told where the
//! training is. What belongs to the training, the step and the weights, is the program's own.
//!
//! ```text
//! cargo build --example elastic
//! cargo run --bin consort -- run -n 3 --tolerate 1 --replace -- target/debug/examples/elastic
//! ```

use consort::{Error, ErrorKind, Group, ReduceOp, Result};

/// Where the training is.
struct State {
    step: f32,
    /// Of the line: slope and height.
    weights: [f32; 2],
}

fn main() -> Result<()> {
    let mut group = consort::init()?;
    let mut state = State { step: 0.0, weights: [0.0; 2] };
    // One that comes later has a group that was made larger.
    if group.name() != "world" {
        tell(&group, &mut state)?;
    }
    while state.step < STEPS {
        if group.name() == "world" && group.rank() == 1 && state.step == FATAL_STEP {
            std::process::abort();
        }
        match step(&group, &mut state) {
            Ok(()) => group = welcome(group, &mut state)?,
            Err(error) if is_loss(&error) => {
                println!("rank {}: {error}", group.rank());
                group = group.shrink()?;
            }
            Err(error) => return Err(error),
        }
    }
    let [slope, height] = state.weights;
    println!("rank {} of {}: {slope:.2} x + {height:.2}", group.rank(), group.world());
    Ok(())
}

/// One step of gradient descent on this rank's points. If it fails, nothing has changed.
fn step(group: &Group, state: &mut State) -> Result<()> {
    let [slope, height] = state.weights;
    let mut gradient = [0.0; 2];
    for point in 0..POINTS {
        let x = (point as f32 + group.rank().as_f32() / 10.0) / POINTS as f32;
        let error = slope * x + height - (3.0 * x - 1.0);
        gradient = [gradient[0] + error * x, gradient[1] + error];
    }
    group.all_reduce(&mut gradient, ReduceOp::Avg)?;
    for (weight, gradient) in state.weights.iter_mut().zip(gradient) {
        *weight -= RATE * gradient / POINTS as f32;
    }
    state.step += 1.0;
    Ok(())
}

/// Takes those in who wait.
fn welcome(group: Group, state: &mut State) -> Result<Group> {
    let mut waiting = [if group.rank() == 0 { group.newcomers()? as u64 } else { 0 }];
    match group.broadcast(&mut waiting, 0) {
        Ok(()) if waiting[0] == 0 => Ok(group),
        Ok(()) => match group.grow() {
            Ok(larger) => {
                println!("rank {}: {} ranks at step {}", group.rank(), larger.world(), state.step);
                // If one of them is gone meanwhile, the next step finds out.
                let _ = tell(&larger, state);
                Ok(larger)
            }
            // Who wanted to come is gone, or could not. Others may come later.
            Err(Error::PeerUnable { .. }) => Ok(group),
            Err(error) if is_loss(&error) || error.kind() == ErrorKind::Deadline => Ok(group),
            Err(error) => Err(error),
        },
        // The next step finds out who is gone.
        Err(error) if is_loss(&error) => Ok(group),
        Err(error) => Err(error),
    }
}

fn is_loss(error: &Error) -> bool {
    error.kind() == ErrorKind::PeerGone
}

/// Rank 0 tells everyone where the training is.
fn tell(group: &Group, state: &mut State) -> Result<()> {
    let mut numbers = [state.step, state.weights[0], state.weights[1]];
    group.broadcast(&mut numbers, 0)?;
    let [step, weights @ ..] = numbers;
    *state = State { step, weights };
    Ok(())
}

const STEPS: f32 = 4_000.0;
const FATAL_STEP: f32 = 1_000.0;
const POINTS: u32 = 50;
const RATE: f32 = 0.5;
