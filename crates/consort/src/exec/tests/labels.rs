//! Messages have the same numbers on both sides, and each has its own.

use std::collections::HashSet;

use consort_plan::{Collective, Layout, algo};

use super::super::recipe::Recipe;

/// From, to and position of all messages that a rank sends, or else receives, in a few segments.
fn messages(recipe: Recipe, layout: &Layout, sends: bool) -> HashSet<(usize, usize, u32)> {
    let mut all = HashSet::new();
    for me in 0..layout.world() {
        let script = recipe.script(me, layout);
        let me = me as usize;
        let messages = (0..script.rounds()).flat_map(|round| script.messages(round));
        for message in messages.filter(|it| it.sends == sends) {
            let (from, to) = if sends { (me, message.peer) } else { (message.peer, me) };
            for segment in 0..SEGMENTS {
                let is_new = all.insert((from, to, message.position(segment)));
                assert!(is_new, "two messages from {from} to {to} have one number: {recipe:?}");
            }
        }
    }
    all
}

fn recipes(layout: &Layout, root: u32) -> Vec<Recipe> {
    let mut recipes = vec![
        Recipe::AllGather,
        Recipe::AllToAll { in_place: false },
        Recipe::AllToAll { in_place: true },
        Recipe::AllReduceSmall,
        Recipe::AllReduceLarge,
        Recipe::ReduceAtRoot { root },
        Recipe::ReduceLarge { root },
        Recipe::ReduceScatter,
    ];
    for algorithm in algo::NAMES {
        let named = algo::named(algorithm, layout).unwrap();
        let ops = Collective::all(root).into_iter();
        let ops = ops.filter(|op| named.supports(*op, layout.world()));
        recipes.extend(ops.map(|op| Recipe::Plan { algorithm, op }));
    }
    recipes
}

#[test]
fn what_is_sent_under_a_number_is_received_under_it_and_nothing_else_is() {
    for world in (2..20).chain([33]) {
        let layout = Layout::even(world, world.div_ceil(3));
        for recipe in recipes(&layout, world / 2) {
            let (sent, received) =
                (messages(recipe, &layout, true), messages(recipe, &layout, false));
            assert!(!sent.is_empty(), "{recipe:?} between {world} ranks sends nothing");
            assert_eq!(sent, received, "{recipe:?} between {world} ranks");
        }
    }
}

#[test]
fn ranks_that_exchange_in_place_and_ranks_that_do_not_send_the_same_messages() {
    for world in [2, 3, 8, 9, 17] {
        let layout = Layout::even(world, world);
        let apart = messages(Recipe::AllToAll { in_place: false }, &layout, true);
        let op = Collective::AllToAll;
        for algorithm in ["flat", "pairwise"] {
            assert_eq!(messages(Recipe::Plan { algorithm, op }, &layout, true), apart);
        }
        assert_eq!(messages(Recipe::AllToAll { in_place: true }, &layout, true), apart);
    }
}

const SEGMENTS: usize = 5;
