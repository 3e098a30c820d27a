//! A rank stands still for longer than its calls may take, and then goes on.

use std::time::Duration;

use consort_testkit::Skip;

use crate::life::{OVER, Sequel, Terms, live};
use crate::numbers::Style;
use crate::remains::state;
use crate::scenario::{Scenario, faults};
use crate::verdict::Trial;

faults! { [shm tcp mixed] [blocking asynchronous scoped]
    a_rank_is_stopped_and_continues
}

fn a_rank_is_stopped_and_continues(scenario: Scenario) -> Result<(), Skip> {
    let terms = terms(scenario.style());
    let trial = Trial::begin(scenario, scenario.ranks(4)?, 4, |ctx| live(ctx, terms));
    stop_and_judge(trial);
    Ok(())
}

/// Short calls, and no wish to go on with the one that will be stopped.
pub(crate) fn terms(style: Style) -> Terms {
    Terms { patience: PATIENCE, without: &[VICTIM], ..Terms::of(style) }
}

/// The victim stands still until the others have gone on without it, and then learns that they have.
pub(crate) fn stop_and_judge(mut trial: Trial) {
    trial.harm(|job| {
        job.stop(VICTIM);
        assert_eq!(state(job.pid(VICTIM)), Some('T'));
    });
    trial.await_all(&OTHERS, OVER);
    assert_eq!(state(trial.job.pid(VICTIM)), Some('T'));
    trial.job.cont(VICTIM);
    let end = trial.end();
    end.were_told(&OTHERS, "Late", &[VICTIM])
        .heard_within(&OTHERS, PATIENCE / 2, PATIENCE + SLACK)
        .went_on(&OTHERS);
    let victim = end.story(VICTIM);
    assert_eq!(victim.failure.text, end.story(0).failure.text, "it is told the same");
    assert_eq!(victim.sequel, Sequel::LeftOut { others: OTHERS.to_vec() });
}

const VICTIM: u32 = 3;
const OTHERS: [u32; 3] = [0, 1, 2];
const PATIENCE: Duration = Duration::from_secs(2);
/// Others use the cores.
const SLACK: Duration = Duration::from_secs(20);
