//! Who a rank of ours is, and how it comes to be among the others.

use std::error::Error;
use std::io::{self, BufRead, Lines, StdinLock};

use consort::{Builder, Group};
use serde::{Deserialize, Serialize};

use super::asker::{end_with, say};
use super::hosts;

/// Who a rank is. It is told in a pipe, because others can read command lines and environments.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Seat {
    /// Its number.
    pub(crate) rank: u32,
    /// How many there are.
    pub(crate) world: u32,
    /// Where they meet.
    pub(crate) address: String,
    /// Who may.
    pub(crate) secret: String,
    /// How they reach each other.
    pub(crate) transport: String,
    /// Whether what goes over TCP is sealed.
    pub(crate) encrypt: bool,
    /// Whether its buffers lie in symmetric memory.
    pub(crate) symmetric: bool,
    /// The host that it runs on, if not the one that it was started on.
    pub(crate) host: Option<String>,
    /// The process that asks; the rank ends with it.
    pub(crate) asker: u32,
}

/// What a rank says when it has met the others.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Met {
    /// Its number.
    pub(crate) met: u32,
}

/// The questions to this rank, a line each.
pub(crate) type Questions = Lines<StdinLock<'static>>;

/// Hears on standard input who this rank is, meets the others, and says so. Questions follow.
///
/// # Errors
/// When nobody says it, or the others do not come.
pub(crate) fn take() -> Result<(Seat, Group, Questions), Box<dyn Error>> {
    let mut lines = io::stdin().lock().lines();
    let seat: Seat = serde_json::from_str(&lines.next().ok_or("nobody says who this rank is")??)?;
    end_with(seat.asker)?;
    if let Some(host) = &seat.host {
        hosts::enter(host)?;
    }
    let group = Builder::new()
        .rank(seat.rank)
        .world(seat.world)
        .address(&seat.address)?
        .secret(seat.secret.parse()?)
        .transport(seat.transport.parse()?)
        .encrypt(seat.encrypt)
        .init()?;
    say(&Met { met: seat.rank })?;
    Ok((seat, group, lines))
}
