//! What carries the data of those who meet.

use std::time::Instant;

use consort_store::{Deadline, Store};
use consort_sys::life::{Life, Sign};

use super::lost::Lost;
use crate::builder::Invitation;
use crate::card::Card;
use crate::error::{Error, Result};
use crate::group::{Carrier, Member};
use crate::mpi::{self, Hold, Mpi};
use crate::options::{Engine, Options, Transport};

/// Begins MPI, if it is to carry data, or has told where to meet. Those who join later are not in it.
///
/// # Errors
/// When it is asked for and cannot be used.
pub(super) fn begin_mpi(
    invitation: &Invitation,
    meeting: &dyn Store,
    cards: &[Card],
    until: Deadline,
) -> Result<Option<Hold>> {
    let Invitation { rank, world, timeout, .. } = *invitation;
    let is_wanted = invitation.options.engine == Engine::Mpi || invitation.is_by_mpi;
    if !is_wanted || invitation.growth > 0 {
        return Ok(None);
    }
    let started = Instant::now();
    let host = &cards[rank as usize].host;
    let is_here = |(_, card): &(u32, &Card)| card.host == *host;
    let here: Vec<(u32, u32)> =
        (0..).zip(cards).filter(is_here).map(|(rank, card)| (rank, card.process)).collect();
    let mut lives = Vec::new();
    let mut look_round = || {
        if lives.is_empty() {
            lives.extend(here.iter().map(|&(_, process)| Life::of(process)));
        }
        let is_ended = |(_, life): &(_, &Life)| life.sign() == Sign::Ended;
        let Some((&(ended, process), _)) = here.iter().zip(&lives).find(is_ended) else {
            return Ok(());
        };
        let found = Lost { rank: ended, process, host: host.clone(), by: rank };
        let when = ("the beginning of MPI", started.elapsed());
        Err(found.or_earlier(meeting).error(invitation, when))
    };
    let mpi = Mpi::open_as(rank, world, until, &mut look_round)?;
    mpi::expect(timeout, here.into_iter().map(|(_, process)| process).collect());
    Ok(Some(mpi.hold()))
}

/// What carries the data of a job: MPI if it is asked for, or if it is there anyway, has ways between hosts that the
/// ranks know nothing of, and nobody says how they are to use their own.
///
/// # Errors
/// When data is to be guarded between hosts in a way that MPI does not know.
pub(super) fn carrier(
    invitation: &Invitation,
    mpi: Option<&Hold>,
    members: &[Member],
) -> Result<Carrier> {
    let options = &invitation.options;
    let Options { engine, encrypt, integrity, .. } = *options;
    let is_on_one_host = members.iter().all(|member| member.host == members[0].host);
    let is_guarded = (encrypt || integrity) && !is_on_one_host;
    match (mpi, engine) {
        (Some(_), Engine::Mpi) if is_guarded => Err(Error::Argument(
            "MPI neither encrypts data nor adds a checksum of ours: turn off CONSORT_ENCRYPT and \
             CONSORT_INTEGRITY, or choose CONSORT_BACKEND=host"
                .to_owned(),
        )),
        (Some(_), Engine::Mpi) => Ok(Carrier::Mpi),
        (Some(_), Engine::Auto | Engine::Nccl)
            if !is_on_one_host && !is_guarded && !says_how(options) =>
        {
            Ok(Carrier::Mpi)
        }
        _ => Ok(Carrier::Host),
    }
}

/// Whether it is said how the ranks are to use their own ways between hosts.
fn says_how(options: &Options) -> bool {
    options.transport != Transport::Auto || options.algorithm.is_some() || options.streams.is_some()
}
