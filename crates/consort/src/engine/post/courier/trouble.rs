//! When messages do not move.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use super::awaited::Sender;
use super::desk::{Arriving, Departing, Desk, Went, undisturbed};
use crate::delivery::{Delivery, Message};
use crate::engine::lookout::Stuck;
use crate::engine::patient::is_overdue;
use crate::engine::post::Post;
use crate::engine::post::exchange::{Arrival, Departure, Exchange, Stage};
use crate::engine::verdict::Waiting;

/// Those whom messages go to or come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Party {
    To(usize),
    From(Sender),
}

impl Desk {
    /// Gives up what there is no use in waiting for.
    pub(super) fn look_round(&mut self, post: &Post) {
        let judge = |party| {
            let judged = post.lookout.judge(&ranks(post, party), || false);
            // Each message has its own deadline, which is looked at below.
            (party, judged.err().unwrap_or(Stuck::Late))
        };
        let judged: Vec<(Party, Stuck)> = self.parties().into_iter().map(judge).collect();
        if !judged.iter().any(|(_, stuck)| matches!(stuck, Stuck::Ended)) {
            // It may have come with somebody's last breath, or in the last moment.
            self.go_on(post);
        }
        for (party, stuck) in judged {
            let stuck = if self.is_premature(post, party, &stuck) { Stuck::Late } else { stuck };
            match party {
                Party::To(to) => self.give_up_sending(post, to, &stuck),
                Party::From(sender) => self.give_up_receiving(post, sender, &stuck),
            }
        }
        self.warn(post);
    }

    /// Says for whom messages have waited long, if it is time to.
    fn warn(&mut self, post: &Post) {
        let Some(after) = post.lookout.warn_after() else { return };
        let parties = self.parties();
        let earlier = std::mem::take(&mut self.warned);
        for party in parties {
            let Some((operation, waited)) = self.oldest(party) else { continue };
            let warned =
                earlier.iter().find(|(it, _)| *it == party).map_or(0, |(_, warned)| *warned);
            // Those that were warned of may have ended meanwhile.
            let warned = if waited < after { 0 } else { warned };
            let is_time = is_overdue(waited, after, warned);
            if is_time {
                let call = format!("{operation} in the background");
                post.lookout.warn(&Waiting { call, number: 0, waited }, &ranks(post, party));
            }
            self.warned.push((party, warned + u32::from(is_time)));
        }
    }

    /// The first message to or from somebody, and how long it has been on its way.
    fn oldest(&self, party: Party) -> Option<(&'static str, Duration)> {
        let arriving = |sender: Sender| Some(&self.arriving[sender?].as_ref()?.delivery);
        let delivery = match party {
            Party::To(to) => self.departing[to].front().map(|departing| &departing.delivery),
            Party::From(sender) => arriving(sender).or_else(|| self.awaited.oldest(sender)),
        };
        delivery.map(|delivery| (delivery.operation(), delivery.elapsed()))
    }

    /// Whether more may be found of what the ranks of a party did before they left or died. If they
    /// left because another died, it is that one who is told of.
    fn is_premature(&self, post: &Post, party: Party, stuck: &Stuck) -> bool {
        let may_be_found = |&rank: &usize| match party {
            Party::To(_) => self.to[rank] != Went::Nowhere,
            Party::From(_) => self.from[rank] != Went::Nowhere,
        };
        let ranks = ranks(post, party);
        match stuck {
            Stuck::Dead { rank } if ranks.contains(rank) => may_be_found(rank),
            Stuck::Left { ranks } if self.is_on_its_way(post, party, ranks) => true,
            Stuck::Dead { .. } | Stuck::Left { .. } => ranks.iter().any(may_be_found),
            Stuck::Ended | Stuck::Damaged { .. } | Stuck::Late => false,
        }
    }

    /// Whether what these ranks have done who have left may not be known here yet.
    fn is_on_its_way(&self, post: &Post, party: Party, ranks: &[usize]) -> bool {
        match party {
            Party::To(to) => {
                let has_begun = |it: &Departing| it.dispatch.has_begun();
                self.departing[to].front().is_some_and(has_begun) && post.may_have_gone(ranks)
            }
            Party::From(_) => post.may_come(ranks),
        }
    }

    fn parties(&self) -> Vec<Party> {
        let world = self.departing.len();
        let receivers = (0..world).filter(|&to| !self.departing[to].is_empty()).map(Party::To);
        let comes =
            |&from: &usize| self.arriving[from].is_some() || self.awaited.is_awaited(Some(from));
        let senders = (0..world).filter(comes).map(|from| Party::From(Some(from)));
        let anybody = self.awaited.is_awaited(None).then_some(Party::From(None));
        receivers.chain(senders).chain(anybody).collect()
    }

    fn give_up_sending(&mut self, post: &Post, to: usize, stuck: &Stuck) {
        let moves = self.to[to] == Went::Further;
        let ends = |it: &Departing| ends(&it.delivery, stuck, moves && it.dispatch.has_begun());
        if !self.departing[to].iter().any(ends) {
            return;
        }
        let all = std::mem::take(&mut self.departing[to]);
        let (gone, rest): (VecDeque<_>, _) = all.into_iter().partition(ends);
        self.departing[to] = rest;
        for Departing { delivery, dispatch } in gone {
            self.give_up(post, delivery, stuck, |message| {
                let Message::Out(message) = message else { unreachable!("it was sent") };
                let departure = Departure { message, dispatch, done: false };
                Exchange { departure: Some(departure), arrival: None }
            });
        }
        post.let_pass(to, self.departing[to].front().map(|next| &next.dispatch));
    }

    fn give_up_receiving(&mut self, post: &Post, sender: Sender, stuck: &Stuck) {
        let arriving = sender.and_then(|from| {
            let moves = self.from[from] == Went::Further;
            self.arriving[from].take_if(|arriving| ends(&arriving.delivery, stuck, moves))
        });
        if let Some(Arriving { delivery, stage }) = arriving {
            self.give_up_at(post, delivery, stage, stuck);
        }
        for (tag, delivery) in self.awaited.remove(sender, |delivery| ends(delivery, stuck, false))
        {
            post.release(sender, tag);
            self.give_up_at(post, delivery, Stage::Awaited, stuck);
        }
    }

    fn give_up_at(&mut self, post: &Post, delivery: Delivery, stage: Stage, stuck: &Stuck) {
        self.give_up(post, delivery, stuck, |message| {
            let Message::In(message) = message else { unreachable!("it was received") };
            Exchange { departure: None, arrival: Some(Arrival::at(stage, message)) }
        });
    }

    fn give_up(
        &mut self,
        post: &Post,
        mut delivery: Delivery,
        stuck: &Stuck,
        exchange: impl FnOnce(Message<'_>) -> Exchange<'_>,
    ) {
        let waited = delivery.elapsed();
        let given_up = undisturbed::<Infallible>(post, &mut delivery, |message| {
            Err(post.give_up(&exchange(message), waited, stuck.clone()))
        });
        let Err(error) = given_up;
        self.end(delivery, Err(error));
    }
}

/// Those of whom all have to be alive and one has to be there.
fn ranks(post: &Post, party: Party) -> Vec<usize> {
    match party {
        Party::To(rank) | Party::From(Some(rank)) => vec![rank],
        Party::From(None) => post.anybody(),
    }
}

/// Whether a message has to end because of what its ranks are stuck with. One that moves is not
/// late.
fn ends(delivery: &Delivery, stuck: &Stuck, moves: bool) -> bool {
    !matches!(stuck, Stuck::Late) || (delivery.deadline().has_passed() && !moves)
}
