use candle_core::Device;
use candle_nn::VarBuilder;
use consort::Builder;
use consort_testkit::{Context, Job, Outcome, Ranks};

use super::*;

const TASK: Task = Task { seed: 3, steps: 6, batch: 10 };

fn meet(ctx: &Context) -> Group {
    let store = format!("file://{}", ctx.dir().join("store").display());
    let builder = Builder::new().rank(ctx.rank()).world(ctx.world()).address(&store).unwrap();
    builder.init().unwrap()
}

/// The losses of somebody who learns alone, without any of what is tried here.
fn losses_of_one() -> Vec<f64> {
    let parameters = VarMap::new();
    let net = Net::new(VarBuilder::from_varmap(&parameters, DType::F32, &Device::Cpu)).unwrap();
    initialise(&parameters, TASK.seed).unwrap();
    let mut changes = AdamW::new(parameters.all_vars(), optimizer()).unwrap();
    let mut lesson = Lesson::new(TASK);
    let mut step = |number| {
        let pictures = lesson.pictures(number, 0, 1);
        let judged = lesson.judge(&net, &pictures, 1).unwrap();
        changes.set_learning_rate(lesson.rate(number));
        changes.step(&judged.part.backward().unwrap()).unwrap();
        judged.sum / TASK.batch as f64
    };
    (0..TASK.steps).map(&mut step).collect()
}

fn take_step(pupil: &mut Pupil, number: usize) -> f64 {
    match pupil.step(number).unwrap() {
        Done::Step(step) => step.loss,
        Done::Lost(error) => panic!("{error}"),
    }
}

fn is_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-5, "{found} instead of {expected}");
    }
}

/// Three learn for two steps. In the third one all get the averages; then the last one dies, and this one has
/// taken the step or not. It goes on, and gives the losses of all steps whose loss it knows.
fn learn_with_a_death(ctx: &Context, has_taken: bool) -> Vec<f64> {
    let mut pupil = Pupil::new(&meet(ctx), TASK).unwrap();
    let mut losses: Vec<f64> = (0..2).map(|number| take_step(&mut pupil, number)).collect();
    pupil.average(2).unwrap();
    pupil.group.barrier().unwrap();
    if ctx.rank() == 2 {
        std::process::abort();
    }
    let mut number = 2;
    if has_taken {
        pupil.take(2).unwrap();
        number = 3;
    }
    let next = pupil.go_on(number).unwrap();
    losses.extend((next..TASK.steps).map(|number| take_step(&mut pupil, number)));
    assert_eq!(pupil.compare(), Ok(()));
    assert_eq!(pupil.ranks(), [0, 1]);
    losses
}

/// The two that are left have had these losses.
fn check(mut job: Job<Vec<f64>>, expected: &[f64]) {
    let outcomes = job.wait();
    assert!(matches!(outcomes[2], Outcome::Signalled(_)), "{outcomes:?}");
    for outcome in &outcomes[..2] {
        let Outcome::Done(found) = outcome else { panic!("{outcome:?}") };
        is_close(found, expected);
    }
}

#[test]
fn who_has_not_taken_a_step_that_the_first_rank_has_follows() {
    let job = Ranks::new(3).start(|ctx| learn_with_a_death(ctx, ctx.rank() == 0));
    check(job, &losses_but_the_third());
}

#[test]
fn who_has_not_taken_a_step_that_another_rank_has_follows() {
    let job = Ranks::new(3).start(|ctx| learn_with_a_death(ctx, ctx.rank() == 1));
    check(job, &losses_but_the_third());
}

#[test]
fn a_step_that_nobody_has_taken_is_taken_again() {
    let job = Ranks::new(3).start(|ctx| learn_with_a_death(ctx, false));
    check(job, &losses_of_one());
}

fn losses_but_the_third() -> Vec<f64> {
    let mut losses = losses_of_one();
    losses.remove(2);
    losses
}
