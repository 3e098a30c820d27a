//! Hears processes out while they learn, shows how it goes, and kills one if that was asked for.

use std::time::Duration;

use super::crew::{Crew, Event, Inbox};
use super::failure::{Failure, Killed};
use super::history::History;
use super::progress::Progress;
use super::screen::Screen;
use super::words::{Task, Word};
use crate::run::signals::asks_to_end;

/// Who is to be killed, and after how many steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sentence {
    pub(crate) rank: usize,
    pub(crate) after: usize,
}

/// Why it is over before its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A signal asks for it.
    Signal(i32),
    /// Something is wrong.
    Failed(String),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// A run from its beginning to its end.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    who: String,
    task: Task,
    crew: Crew,
    history: History,
    ended: Vec<bool>,
    sentence: Option<Sentence>,
    killed: Option<Killed>,
    screen: &'a mut Screen,
}

impl<'a> Run<'a> {
    /// Of so many processes.
    pub(crate) fn new(
        (who, count): (String, usize),
        task: Task,
        crew: Crew,
        screen: &'a mut Screen,
    ) -> Self {
        let (history, ended) = (History::new(count), vec![false; count]);
        Self { who, task, crew, history, ended, sentence: None, killed: None, screen }
    }

    /// The same, with somebody who is killed on the way.
    pub(crate) fn killing(self, sentence: Option<Sentence>) -> Self {
        Self { sentence, ..self }
    }

    /// Hears them until all have ended.
    ///
    /// # Errors
    /// Why they have not come to their end.
    pub(crate) fn conduct(mut self, inbox: &Inbox) -> Result<(History, Option<Killed>), Stop> {
        while self.ended.contains(&false) {
            match inbox.next(PAUSE) {
                Some(Event::Said(rank, word)) => self.hear(rank, word)?,
                Some(Event::Ended(rank)) => self.note_end(rank)?,
                Some(Event::Signal(signal)) if asks_to_end(signal) => {
                    return Err(Stop::Signal(signal));
                }
                Some(Event::Signal(_)) | None => {}
            }
        }
        self.screen.end();
        Ok((self.history, self.killed))
    }

    fn hear(&mut self, rank: usize, word: Word) -> Result<(), Stop> {
        let before = self.history.steps();
        let is_news = matches!(word, Word::Lost(_) | Word::Resumed { .. });
        let noted = self.history.note(rank, word);
        if let Err(why) = noted
            && !self.is_killed(rank)
        {
            return Err(Stop::Failed(format!("{}: {why}", self.name(rank))));
        }
        // The ranks take steps together: the first who says so is heard.
        if self.history.steps() > before {
            self.kill_if_due()?;
            if let Some(progress) = Progress::of(&self.who, &self.history, self.task) {
                self.screen.show(&progress);
            }
        }
        if is_news && let Some(killed) = self.killed {
            self.tell(rank, killed);
        }
        Ok(())
    }

    fn kill_if_due(&mut self) -> Result<(), Stop> {
        let done = self.history.steps();
        let Some(Sentence { rank, .. }) = self.sentence.take_if(|it| done >= it.after) else {
            return Ok(());
        };
        let at = self.crew.kill(rank)?;
        self.killed = Some(Killed { rank, after: done, at });
        self.screen.say(&format!("rank {rank} is killed after step {done} (SIGKILL)"));
        Ok(())
    }

    /// Tells what a rank has to say of the one that was killed.
    fn tell(&mut self, rank: usize, killed: Killed) {
        let failure = Failure::of(&self.history, killed);
        let has_resumed = self.history.members[rank].resumed.is_some();
        let others = self.history.members.iter().filter(|member| member.resumed.is_some()).count();
        if !has_resumed {
            let noticed = failure.noticed.iter().find(|noticed| noticed.rank == rank);
            noticed.into_iter().for_each(|noticed| self.screen.say(&noticed.sentence()));
        } else if others == failure.survivors.len() {
            let sentences = failure.sentences();
            sentences.last().into_iter().for_each(|last| self.screen.say(last));
        }
    }

    fn note_end(&mut self, rank: usize) -> Result<(), Stop> {
        self.ended[rank] = true;
        if self.history.members[rank].is_done || self.is_killed(rank) {
            return Ok(());
        }
        let words = self.crew.last_words(rank);
        Err(Stop::Failed(format!("{} has ended by itself{words}", self.name(rank))))
    }

    fn is_killed(&self, rank: usize) -> bool {
        self.killed.is_some_and(|killed| killed.rank == rank)
    }

    fn name(&self, rank: usize) -> String {
        if self.ended.len() == 1 { self.who.clone() } else { format!("rank {rank}") }
    }
}

/// How long nobody may say anything before somebody looks around.
const PAUSE: Duration = Duration::from_millis(500);
