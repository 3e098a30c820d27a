//! Lets several trainers train in turn, so that all meet the same machine.

use super::super::measurer::Refusal;
use super::course::{Course, TENTH};
use super::progress::Progress;
use super::trainer::Trainer;

/// Trainers in turn, round after round; ours is the first.
pub(crate) struct Race<'a> {
    pub(crate) trainers: Vec<Box<dyn Trainer + 'a>>,
    /// How many rounds count.
    pub(crate) rounds: usize,
    /// How many steps of each kind a round has.
    pub(crate) steps: usize,
    /// How long a cache line takes from core to core, in microseconds.
    pub(crate) hop: &'a mut dyn FnMut() -> Option<f64>,
    pub(crate) progress: &'a mut Progress,
}

impl Race<'_> {
    /// Every trainer's name and course; none for one that did not reach the end.
    ///
    /// # Errors
    /// When ours is gone, why.
    pub(crate) fn run(mut self) -> Result<Vec<(String, Option<Course>)>, String> {
        let count = self.trainers.len();
        let mut courses: Vec<Option<Course>> = vec![Some(Course::default()); count];
        for turn in 0..(self.rounds + 1) * count {
            // Each round begins with another one, so that nobody always follows the same.
            let round = turn / count;
            let at = (turn + round) % count;
            self.show(round, at);
            let Some(course) = &mut courses[at] else { continue };
            match self.take_turn(at, round, course) {
                Ok(()) => {}
                Err(why) if at == 0 => return Err(why),
                Err(why) => {
                    self.progress.note(&format!("{why}\n    it is left out from here on"));
                    courses[at] = None;
                }
            }
        }
        self.progress.end();
        let names = self.trainers.iter().map(|trainer| trainer.name().to_owned());
        Ok(names.zip(courses).collect())
    }

    fn show(&self, round: usize, at: usize) {
        let (name, rounds) = (self.trainers[at].name(), self.rounds);
        self.progress.show(&match round {
            0 => format!("first steps of {name}"),
            _ => format!("round {round} of {rounds}, {name}"),
        });
    }

    fn take_turn(&mut self, at: usize, round: usize, course: &mut Course) -> Result<(), String> {
        let trainer = &mut self.trainers[at];
        let name = trainer.name().to_owned();
        let named = |why: String| format!("{name}: {why}");
        let in_words = |refusal: Refusal| match refusal {
            Refusal::Gone(why) => why,
            Refusal::Point(why) => named(why),
        };
        if round == 0 {
            let shares = trainer.train(TENTH).map_err(in_words)?;
            return course.begin(shares).map_err(named);
        }
        let before = (self.hop)();
        let shares = trainer.train(self.steps).map_err(in_words)?;
        // If the cores moved meanwhile, the larger one says that it was not the near case.
        let hop = before.into_iter().chain((self.hop)()).reduce(f64::max);
        course.add(shares, hop).map_err(named)
    }
}
