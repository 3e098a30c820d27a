use proptest::prelude::*;

use super::*;
use crate::engine::at_once;

fn card(rank: u32) -> Card {
    Card { rank, place: Some([1, 2, u64::from(rank)]), ..Card::default() }
}

fn table(world: usize, cards: &[Card]) -> Table {
    let log: Vec<u8> = cards.iter().flat_map(Card::entry).collect();
    Table::read(world, &log).unwrap()
}

#[test]
fn nothing_is_decided_while_somebody_may_come() {
    let dead_2 = Card { dead: [2].into(), ..card(0) };
    assert_eq!(table(4, std::slice::from_ref(&dead_2)).decide(), None);
    assert_eq!(table(4, std::slice::from_ref(&dead_2)).awaited(), [1, 3]);
    assert_eq!(table(4, &[dead_2, card(1), card(3)]).decide(), Some(vec![0, 1, 3]));
}

#[test]
fn ranks_that_know_of_different_deaths_put_them_together() {
    let cards = [Card { dead: [1].into(), ..card(0) }, Card { dead: [2].into(), ..card(3) }];
    assert_eq!(table(4, &cards).decide(), Some(vec![0, 3]));
}

#[test]
fn a_rank_that_has_died_after_it_came_is_out() {
    let later = Card { dead: [1, 2].into(), ..card(0) };
    let cards = [Card { dead: [1].into(), ..card(0) }, card(2), later];
    assert_eq!(table(3, &cards).decide(), Some(vec![0]));
}

#[test]
fn one_who_is_not_wanted_is_out_whoever_says_so_and_one_who_has_left_is_not_awaited() {
    let cards = [card(0), Card { without: [0].into(), left: [2].into(), ..card(1) }];
    assert_eq!(table(3, &cards).decide(), Some(vec![1]));
    // Who has left the old group since it came is in the new one.
    let cards = [card(0), Card { left: [0, 2].into(), ..card(1) }];
    assert_eq!(table(3, &cards).decide(), Some(vec![0, 1]));
}

#[test]
fn one_who_lacks_what_it_needs_is_out() {
    let poor = Card { place: None, ..card(1) };
    assert_eq!(table(2, &[card(0), poor]).decide(), Some(vec![0]));
}

#[test]
fn logs_that_are_cut_or_name_strangers_are_refused() {
    let log = card(1).entry();
    for len in 1..log.len() {
        assert!(Table::read(2, &log[..len]).is_err(), "{len} bytes");
    }
    assert!(Table::read(1, &log).is_err_and(|what| what.contains("rank 1 in a group of 1")));
}

/// A meeting at which everything has been decided before this rank comes, and the store is slow.
struct Slow {
    logs: Vec<Heard>,
}

impl Meeting for Slow {
    fn look_round(&mut self, _: &mut Card) -> bool {
        false
    }

    async fn show(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    async fn hear(&mut self, _: &[u8], _: bool) -> Result<Heard> {
        Ok(self.logs.remove(0))
    }

    async fn settled(&mut self) -> Result<Option<Vec<u8>>> {
        Ok(Some(encode(&vec![0_u32, 1])))
    }

    async fn settle(&mut self, _: Vec<u8>) -> Result<Vec<u8>> {
        unreachable!("it is settled")
    }

    fn is_late(&self) -> bool {
        false
    }
}

#[test]
fn whoever_reads_what_was_settled_reads_the_cards_of_all_who_are_in() {
    let (mine, both) = (card(0).entry(), [card(0).entry(), card(1).entry()].concat());
    let logs = vec![Heard::Log(mine), Heard::NoAnswer, Heard::Log(both)];
    let outcome = at_once(agree(&mut Slow { logs }, &mut card(0), 2)).unwrap();
    assert_eq!(outcome, Outcome::Settled(vec![0, 1], table(2, &[card(0), card(1)])));
}

fn any_card(world: u32) -> impl Strategy<Value = Card> {
    let some = || prop::collection::btree_set(0..world, 0..3);
    (0..world, any::<Option<[u64; 3]>>(), some(), some(), some())
        .prop_map(|(rank, place, dead, left, without)| Card { rank, place, dead, left, without })
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(log in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Table::read(3, &log);
    }

    /// More that is told never brings somebody back who was out.
    #[test]
    fn who_is_out_stays_out(cards in prop::collection::vec(any_card(6), 1..20)) {
        for len in 1..cards.len() {
            // Those who know of a death, or do not want somebody, keep saying so.
            let keeps = cards.iter().take(len + 1).enumerate().all(|(at, card)| {
                cards[at..=len].iter().filter(|later| later.rank == card.rank).all(|later| {
                    later.dead.is_superset(&card.dead) && later.without.is_superset(&card.without)
                })
            });
            if !keeps {
                break;
            }
            let (before, after) = (table(6, &cards[..len]), table(6, &cards[..=len]));
            prop_assert!(before.out().is_subset(&after.out()));
            if let Some(decided) = after.decide() {
                prop_assert!(decided.iter().all(|rank| !before.out().contains(rank)));
                prop_assert!(decided.iter().all(|&rank| after.place_of(rank).is_some()));
            }
        }
    }
}
