//! What somebody learns who listens between two hosts, and who is let in.

use std::io::{Read, Write};
use std::net::TcpStream;

use consort::Builder;
use consort_testkit::{Context, skip};

use crate::exercise::{exercise, numbers};
use crate::meddler::{Meddling, PATTERN, PORT, find, meddle, two_ranks};
use crate::meet::invited;

#[test]
fn who_listens_hears_what_is_not_sealed() {
    let ranks = match two_ranks() {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let (_, heard) = meddle(ranks.start(|ctx| speak(ctx, |builder| builder)), Meddling::None);
    assert!(find(&heard, PATTERN).is_some());
    for rank in [0, 1] {
        assert!(find(&heard, &in_bytes(rank)).is_some(), "rank {rank} said nothing");
    }
}

#[test]
fn who_listens_hears_nothing_of_what_is_sealed() {
    let ranks = match two_ranks() {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let job = ranks.start(|ctx| speak(ctx, |builder| builder.encrypt(true)));
    let (_, heard) = meddle(job, Meddling::None);
    assert!(heard.len() > 1_000_000, "only {} bytes were heard", heard.len());
    assert!(find(&heard, PATTERN).is_none());
    for rank in [0, 1] {
        assert!(find(&heard, &in_bytes(rank)).is_none(), "rank {rank} was heard");
    }
    // What is sealed looks like chance: no byte is more frequent than another.
    let mut counts = [0_usize; 256];
    heard.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
    let usual = heard.len() / 256;
    assert!(counts.iter().all(|count| (usual / 2..usual * 2).contains(count)), "{counts:?}");
}

#[test]
fn whoever_does_not_know_the_secret_is_turned_away_and_the_group_goes_on() {
    let ranks = match two_ranks() {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let mut job = ranks.start(|ctx| speak(ctx, |builder| builder.encrypt(true)));
    job.await_point(1, "listening");
    let door = (job.hosts().unwrap().host(1).address(), PORT);
    let mut stranger = job.hosts().unwrap().host(2).run(|| TcpStream::connect(door)).unwrap();
    job.tell("go", &true);
    // It asks for rank 1 as somebody does who can only guess.
    stranger.write_all(&[&1_u32.to_le_bytes()[..], &[0x17; 32]].concat()).unwrap();
    let mut answer = Vec::new();
    // It may be cut off instead of hung up on.
    let _ = stranger.read_to_end(&mut answer);
    assert!(answer.is_empty(), "a stranger was let in: {answer:?}");
    job.expect_all();
}

/// Does everything, once with the pattern. Rank 1 waits for rank 0 to go.
fn speak(ctx: &Context, options: impl FnOnce(Builder) -> Builder) {
    let group = options(invited(ctx).data_port(PORT)).init().unwrap();
    ctx.reach("listening");
    let _: bool = ctx.told("go");
    let mut data = PATTERN.repeat(100);
    group.broadcast(&mut data, 1).unwrap();
    exercise(&group, 20_000);
}

/// Some of what a rank says in the exercise.
fn in_bytes(rank: u32) -> Vec<u8> {
    numbers(rank, 8, 20_000)[500..504].iter().flat_map(|number| number.to_ne_bytes()).collect()
}
