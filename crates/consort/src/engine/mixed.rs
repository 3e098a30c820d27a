//! A group's way between hosts that have several ranks each, for one call at a time.
//!
//! Inside a host data goes through shared memory, between hosts over the wire, and every rank of a
//! host does its share of that. Those who have the same number on their hosts are a *column*:
//!
//! ```text
//!              host 0          host 1
//!  column 0    rank 0 ═══════▶ rank 2       over the wire
//!                │               │
//!  column 1    rank 1 ═══════▶ rank 3       across a column; inside a host: shared memory
//! ```
//!
//! A call is made of phases inside and across ([`sums`], [`moves`]), at most one of them across: the
//! messages of a call have one set of labels. It is one call for everyone: counted once, compared
//! once on the board and once on the wire, and it fails for one reason ([`Bond`]).
//!
//! **Exactness.** Operands are combined inside each host, in the order of ranks, and the hosts' results
//! in the order of hosts. What that would round or cut too often goes [over the wire](Wired) from
//! every rank to every rank, as do operations whose parts differ from rank to rank.

mod bond;
mod moves;
mod passage;
mod sums;

use std::pin::Pin;
use std::sync::Arc;

use consort_plan::Layout;
use consort_sys::arena::Piece;
use consort_sys::ring::Rings;
use consort_sys::wait::Patience;

use self::bond::Bond;
use self::passage::Passage;
use super::company::Peers;
use super::lane::{Lane, Neighbour};
use super::lookout::Lookout;
use super::pace::{Notes, Pace, at_once};
use super::patient::Patient;
use super::post::{Inlet, Outlet, Post};
use super::queue::Queue;
use super::road::Way;
use super::sleep::{Rest, Sleep};
use super::wired::{Column, Route, Wired};
use crate::backend::Terms;
use crate::call::{Call, Description};
use crate::error::Result;
use crate::exec::Choices;
use crate::group::Job as Membership;
use crate::neighbourhood::Places;

/// The way.
#[derive(Debug)]
pub(crate) struct Mixed {
    lane: Box<Lane>,
    wired: Wired,
    layout: Layout,
    column: Column,
    /// For what ranks have combined or collected inside, before it goes across.
    scratch: Vec<u8>,
}

impl Mixed {
    /// For the group of this name, whose ranks are on these hosts, as many on each. Those on this one
    /// have set these places aside.
    ///
    /// # Errors
    /// When a place is not in its rank's memory, or there are too many ranks on this host.
    pub(crate) fn new(
        name: &str,
        route: Route,
        layout: Layout,
        (me, neighbours): (usize, Vec<Neighbour>),
        places: Places,
        choices: Choices,
        patience: Patience,
    ) -> Result<Self> {
        let ranks = layout.ranks(layout.host(route.me() as u32)).to_vec();
        let mut whole = None;
        let Places { mine, offsets } = places;
        let lane = Lane::with(me, neighbours, mine, &offsets, patience, |peers, block, rings| {
            let bond = Bond::new(route.clone(), peers.clone(), &ranks);
            let lookout = Lookout::new(name, Peers::Apart(Arc::new(bond)));
            let post = post(&lookout, &route, &ranks, (block, rings), patience);
            let part = lookout.of_part(peers, ranks.clone());
            whole = Some(lookout);
            (part, post)
        })?;
        let lookout = whole.expect("a lane has a lookout");
        let wired = Wired::new(route, lookout, choices, patience);
        let number = |host| layout.ranks(host)[me] as usize;
        let column = wired.column((0..layout.count()).map(number).collect());
        Ok(Self { lane: Box::new(lane), wired, layout, column, scratch: Vec::new() })
    }

    /// The group's messages, which need no turn.
    pub(crate) fn post(&self) -> &Arc<Post> {
        self.lane.post()
    }

    /// Counts a call.
    fn begin(&mut self, call: &Call<'_>, terms: Terms) -> Result<Description> {
        let description = self.wired.begin(call, terms)?;
        self.lane.count(&description);
        self.lookout().diary().begin(self.wired.number(), &description, terms.site);
        Ok(description)
    }

    /// Writes down that it has ended.
    fn end(&mut self, description: &Description, is_good: bool) {
        let combined = self.lane.take_combined() + self.wired.take_combined();
        let (number, diary) = (self.wired.number(), self.lookout().diary());
        diary.end(number, description, is_good, combined);
    }

    async fn carry_out(&mut self, call: &Call<'_>, patient: &mut Patient<'_>) -> Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let Self { lane, wired, layout, column, .. } = self;
        let mut passage = Passage::new(lane, wired, layout, column, patient);
        let done = match *call {
            Call::Barrier => passage.barrier().await,
            Call::AllReduce { dtype, op, input, output } => {
                passage.all_reduce(dtype, op, input, output).await
            }
            Call::Reduce { dtype, op, root, input, output } => {
                passage.reduce(dtype, op, root, input, output, &mut scratch).await
            }
            Call::ReduceScatter { dtype, op, inputs, output } => {
                passage.reduce_scatter(dtype, op, inputs, output, &mut scratch).await
            }
            Call::Broadcast { dtype, root, buffer } => passage.broadcast(dtype, root, buffer).await,
            Call::AllGather { dtype, input, outputs } => {
                passage.all_gather(dtype, input, outputs).await
            }
            Call::AllToAll { dtype, uneven: false, inputs, outputs } => {
                passage.all_to_all(dtype, inputs, outputs, &mut scratch).await
            }
            Call::Gather { .. } | Call::Scatter { .. } | Call::AllToAll { .. } => {
                passage.flat(call).await
            }
        };
        if scratch.len() <= MOST_KEPT {
            self.scratch = scratch;
        }
        done
    }
}

impl Way for Mixed {
    fn run(&mut self, call: &Call<'_>, terms: Terms, line: Option<&Queue>) -> Result<u64> {
        let description = self.begin(call, terms)?;
        let mut patient = Patient::new(Pace::Here(terms.timeout, line), description);
        let done = at_once(self.carry_out(call, &mut patient));
        self.end(&description, done.is_ok());
        done.map(|()| self.wired.number())
    }

    fn run_elsewhere<'a>(
        &'a mut self,
        call: &'a Call<'_>,
        terms: Terms,
        notes: &'a Notes,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + 'a>> {
        Box::pin(async move {
            let description = self.begin(call, terms)?;
            let mut patient = Patient::new(Pace::Elsewhere(notes), description);
            let done = self.carry_out(call, &mut patient).await;
            self.end(&description, done.is_ok());
            done
        })
    }

    fn lookout(&self) -> &Lookout {
        self.wired.lookout()
    }

    fn place(&self) -> Arc<dyn Sleep> {
        self.wired.place()
    }

    fn leave(self: Box<Self>, membership: &Membership) {
        if let Some(neighbourhood) = &membership.neighbourhood {
            neighbourhood.take_back(self.lane);
        }
    }
}

/// Messages: through rings to those of these ranks, who are on this host, otherwise over the wire.
fn post(
    lookout: &Lookout,
    route: &Route,
    here: &[u32],
    (block, rings): (Piece, Rings),
    patience: Patience,
) -> Post {
    let Rings { outlets, inlets, bells } = rings;
    let mut ends: Vec<_> = route.mail().collect();
    let mut is_here = vec![false; ends.len()];
    for ((outlet, inlet), &rank) in outlets.into_iter().zip(inlets).zip(here) {
        let rank = rank as usize;
        is_here[rank] = true;
        if rank != route.me() {
            ends[rank] = Some((Outlet::Ring(outlet), Inlet::Ring(inlet)));
        }
    }
    let mine = here.iter().zip(bells).find(|(rank, _)| **rank as usize == route.me());
    let (_, bell) = mine.expect("this rank is here");
    let rest = Rest::Both { bell, place: route.wire().clone(), is_here: is_here.into() };
    Post::over(lookout.clone(), ends.into_iter(), rest, patience).holding(block)
}

/// So much memory stays for the next call.
const MOST_KEPT: usize = 16 << 20;
