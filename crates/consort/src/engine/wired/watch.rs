//! What there is to do while a call waits.

use std::time::{Duration, Instant};

use super::links::CallLinks;
use super::route::Route;
use crate::error::Result;

/// A wait of a call, and when those who are waited for were asked last.
#[derive(Debug, Default)]
pub(super) struct Watch {
    began: Option<Instant>,
    asked: Option<Instant>,
}

impl Watch {
    /// Looks whether others make different calls, which no rank finds out by itself if all of them
    /// wait; and, now and then, tells those who are waited for, and asks the store what ranks cannot
    /// say without a connection.
    ///
    /// # Errors
    /// When they do: the group has ended.
    pub(super) fn look_round(
        &mut self,
        route: &Route,
        links: &CallLinks<'_>,
        awaited: &[usize],
    ) -> Result<()> {
        links.hear()?;
        let now = Instant::now();
        let began = *self.began.get_or_insert(now);
        let pause = ((now - began) / 2).clamp(SOON, SELDOM);
        if now - self.asked.unwrap_or(began) >= pause {
            links.ask(awaited);
            route.ask_store(awaited);
            self.asked = Some(now);
        }
        Ok(())
    }
}

/// Before anybody is asked.
const SOON: Duration = Duration::from_millis(50);
/// However long it takes.
const SELDOM: Duration = Duration::from_secs(1);
