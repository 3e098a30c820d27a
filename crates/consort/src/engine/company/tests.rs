//! Ranks who know each other from a list that they share.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::*;
use crate::engine::lookout::{Lookout, Stakes, Stuck};
use crate::engine::verdict::{Cause, Waiting};
use crate::error::Error;

/// What is known of all of them.
#[derive(Debug, Default)]
pub(in crate::engine) struct List {
    pub(in crate::engine) left: Vec<usize>,
    pub(in crate::engine) dead: Vec<usize>,
    /// Who waits for whom, as it has said.
    pub(in crate::engine) waits: Vec<(usize, usize)>,
    /// Who knew of whom that it was dead.
    pub(in crate::engine) mourned: Vec<(usize, usize)>,
    pub(in crate::engine) end: Option<(usize, Vec<u8>)>,
}

/// A rank, and the list.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Member {
    me: usize,
    world: usize,
    list: Arc<Mutex<List>>,
}

impl Member {
    /// So many of them.
    pub(in crate::engine) fn several(world: usize) -> Vec<Self> {
        let list = Arc::<Mutex<List>>::default();
        (0..world).map(|me| Self { me, world, list: list.clone() }).collect()
    }

    pub(in crate::engine) fn lookout(&self) -> Lookout {
        let company: Arc<dyn Company> = Arc::new(self.clone());
        Lookout::new("few", company.into())
    }

    pub(in crate::engine) fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap()
    }
}

impl Company for Member {
    fn me(&self) -> usize {
        self.me
    }

    fn world(&self) -> usize {
        self.world
    }

    fn leave(&self) {
        self.list().left.push(self.me);
    }

    fn has_left(&self, rank: usize) -> bool {
        self.list().left.contains(&rank)
    }

    fn is_dead(&self, rank: usize) -> bool {
        self.list().dead.contains(&rank)
    }

    fn mourn(&self, rank: usize) {
        self.list().mourned.push((self.me, rank));
    }

    fn mourned(&self, by: usize) -> Option<usize> {
        self.list().mourned.iter().find(|(it, _)| *it == by).map(|(_, rank)| *rank)
    }

    fn say_whom(&self, rank: usize) {
        self.list().waits.push((self.me, rank));
    }

    fn whom(&self, rank: usize) -> Option<usize> {
        self.list().waits.iter().rfind(|(it, _)| *it == rank).map(|(_, rank)| *rank)
    }

    fn halt(&self, verdict: &[u8]) {
        self.list().end.get_or_insert_with(|| (self.me, verdict.to_vec()));
    }

    fn is_halted(&self) -> bool {
        self.list().end.is_some()
    }

    fn end(&self) -> Option<End> {
        let end = self.list().end.clone();
        end.map(|(rank, verdict)| End::By { rank, verdict })
    }
}

fn waiting() -> Waiting {
    Waiting { call: "barrier".to_owned(), number: 7, waited: Duration::from_secs(3) }
}

#[test]
fn every_rank_hears_what_the_first_has_found_without_a_board() {
    let members = Member::several(5000);
    let lookouts = [0, 1, 4999].map(|rank: usize| members[rank].lookout());
    let missing = [4, 4998].into_iter().collect();
    assert!(lookouts.iter().all(|lookout| !lookout.has_ended() && lookout.error().is_none()));
    let found = lookouts[1].decide(Cause::Late { missing, waiting: waiting() });
    let Error::Late { by: 1, ref missing, number: 7, .. } = found else { panic!("{found}") };
    assert_eq!(missing[0], 4);
    for lookout in &lookouts {
        assert!(lookout.has_ended());
        let later = lookout.decide(Cause::Aborted { reason: "too late".to_owned() });
        assert_eq!(later.to_string(), found.to_string());
        assert_eq!(lookout.error().unwrap().to_string(), found.to_string());
    }
}

#[test]
fn a_wait_for_ranks_without_a_board_ends_when_they_leave_or_die_or_are_late() {
    let members = Member::several(3);
    let lookout = members[0].lookout();
    assert!(lookout.judge(&[1, 2], || false).is_ok());
    assert!(matches!(lookout.judge(&[1, 2], || true), Err(Stuck::Late)));
    members[0].list().left.push(1);
    assert!(lookout.judge(&[1, 2], || false).is_ok(), "one is there");
    let stuck = lookout.judge(&[1], || false).unwrap_err();
    assert!(matches!(&stuck, Stuck::Left { ranks } if ranks == &[1]), "{stuck:?}");
    // Somebody who waits for nobody else is told, and the group goes on.
    let nobody = || std::iter::empty().collect();
    let error = lookout.give_up(stuck, waiting(), nobody(), Stakes::Wait);
    assert!(matches!(&error, Error::Left { by: 0, ranks, .. } if ranks == &[1]), "{error}");
    assert!(!lookout.has_ended());
    members[0].list().dead.push(2);
    let stuck = lookout.judge(&[1, 2], || false).unwrap_err();
    assert!(matches!(stuck, Stuck::Dead { rank: 2 }), "{stuck:?}");
    let error = lookout.give_up(stuck, waiting(), nobody(), Stakes::Wait);
    assert!(matches!(error, Error::PeerLost { by: 0, rank: 2, number: 7, .. }), "{error}");
    assert!(matches!(members[1].lookout().judge(&[0], || false), Err(Stuck::Ended)));
}

#[test]
fn of_ranks_that_ended_one_because_of_the_other_the_first_is_named() {
    let blamed = |left: &[usize], dead: &[usize], mourned: &[(usize, usize)]| {
        let members = Member::several(4);
        let [left, dead] = [left, dead].map(<[usize]>::to_vec);
        *members[0].list() = List { left, dead, mourned: mourned.to_vec(), ..List::default() };
        match members[0].lookout().judge(&[3], || false) {
            Err(Stuck::Dead { rank }) => Some(rank),
            Err(Stuck::Left { .. }) => None,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(blamed(&[], &[3], &[]), Some(3));
    assert_eq!(blamed(&[], &[3], &[(3, 1)]), Some(1), "it ended because of another");
    assert_eq!(blamed(&[], &[3], &[(3, 2), (2, 1)]), Some(1), "and that one too");
    assert_eq!(blamed(&[3], &[], &[(3, 1)]), Some(1), "it left because of another");
    assert_eq!(blamed(&[3], &[2], &[(2, 1)]), Some(1), "another has ended, and why is known");
    assert_eq!(blamed(&[3], &[], &[]), None);
    // Whose connection is cut both take for dead: one of them is named.
    assert!(blamed(&[], &[3], &[(3, 2), (2, 3)]).is_some_and(|rank| rank >= 2));
    assert!(
        blamed(&[], &[3], &[(3, 1), (1, 2), (2, 1)]).is_some_and(|rank| rank == 1 || rank == 2)
    );
}

#[test]
fn of_ranks_that_wait_one_for_the_other_the_last_is_late() {
    let members = Member::several(4);
    let waits = |rank: usize, awaited: usize| members[rank].lookout().judge(&[awaited], || false);
    assert!(waits(2, 3).is_ok() && waits(1, 2).is_ok() && waits(0, 1).is_ok());
    assert_eq!(members[0].list().waits, [(2, 3), (1, 3), (0, 3)]);
    let missing = [1, 3].into_iter().collect();
    let error = members[0].lookout().give_up(Stuck::Late, waiting(), missing, Stakes::Group);
    assert!(matches!(&error, Error::Late { missing, .. } if missing == &[3]), "{error}");
    // If all wait for each other, each says whom it waits for itself.
    let members = Member::several(2);
    members[0].list().waits.push((1, 0));
    let missing = [1].into_iter().collect();
    let error = members[0].lookout().give_up(Stuck::Late, waiting(), missing, Stakes::Group);
    assert!(matches!(&error, Error::Late { missing, .. } if missing == &[1]), "{error}");
}

#[test]
fn whoever_hears_that_a_rank_is_dead_leaves_word_of_it() {
    let members = Member::several(3);
    members[0].lookout().decide(Cause::Dead { rank: 1, waiting: waiting() });
    assert!(members[2].lookout().error().is_some());
    assert_eq!(members[0].list().mourned, [(0, 1), (2, 1)]);
}

#[test]
fn a_verdict_that_cannot_be_read_is_called_damaged_without_a_board() {
    let members = Member::several(2);
    members[1].list().end = Some((1, vec![0xff; 100]));
    let error = members[0].lookout().ended();
    assert!(matches!(error, Error::Damaged { rank: 1, .. }), "{error}");
}
