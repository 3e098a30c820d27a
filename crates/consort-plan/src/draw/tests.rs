use super::*;
use crate::algo::{Algorithm, Binomial, Doubling, Pairwise, Ring};
use crate::op::Collective;

fn programs(algorithm: &dyn Algorithm, op: Collective, world: u32) -> Vec<Program> {
    (0..world).map(|rank| algorithm.program(op, world, rank)).collect()
}

#[test]
fn programs_stand_side_by_side() {
    insta::assert_snapshot!(text(&programs(&Ring, Collective::AllReduce, 3)));
}

#[test]
fn ranks_with_fewer_rounds_leave_their_place_empty() {
    insta::assert_snapshot!(text(&programs(&Binomial, Collective::Gather { root: 1 }, 5)));
}

#[test]
fn many_ranks_stand_below_each_other() {
    let text = text(&programs(&Pairwise, Collective::AllToAll, 20));
    assert!(text.lines().all(|line| line.chars().count() <= PAGE + 10), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("round")).count(), 3);
    assert!(text.contains("rank 19"));
}

#[test]
fn one_rank_is_told_step_by_step() {
    let program = Doubling.program(Collective::AllReduce, 3, 0);
    insta::assert_snapshot!(steps(&program), @"
    round 0   recv from 1: Scratch[0..3] = In[0..3] ∘ received
    round 1   send Scratch[0..3] to 2
              recv from 2: Out[0..3] = Scratch[0..3] ∘ received
    round 2   send Out[0..3] to 1
    needs scratch for 3 chunks, as large as the chunks 0, 1, 2
    ");
}

#[test]
fn a_picture_has_a_lane_for_every_rank_and_an_arrow_for_every_message() {
    let svg = svg("ring <3>", &programs(&Ring, Collective::AllReduce, 3));
    assert_eq!(svg.matches("<text x=\"16\" y=\"").count(), 1 + 3);
    assert_eq!(svg.matches("class=\"c\"").count(), 3 * 2);
    assert_eq!(svg.matches("class=\"m\"").count(), 3 * 2);
    assert_eq!(svg.matches(", round ").count(), 3 * 4 + 2 * 12);
    assert!(svg.contains("ring &lt;3&gt;"));
}

#[test]
fn messages_never_go_back_in_time() {
    for world in [2, 5, 8] {
        for op in Collective::all(1) {
            for algorithm in crate::algo::ALL.into_iter().filter(|it| it.supports(op, world)) {
                let programs = programs(algorithm, op, world);
                let times = times::Times::of(&programs);
                for (program, rounds) in programs.iter().zip(&times.rounds) {
                    assert_eq!(program.len(), rounds.len());
                }
                for message in &times.messages {
                    let sent = times.rounds[message.from.rank][message.from.round].0;
                    let received = times.rounds[message.to.rank][message.to.round].1;
                    assert!(sent < received, "{op} by {}", algorithm.name());
                }
            }
        }
    }
}
