//! Two wires in one process, and what may happen to the frames between them.

use std::net::{IpAddr, Ipv4Addr};
use std::thread;
use std::time::{Duration, Instant};

use consort_store::{Deadline, MemStore};
use consort_sys::host::HostId;
use consort_sys::view::{Source, Target};

use super::*;
use crate::group::{Member, Rank};
use crate::neighbourhood::Round;
use crate::options::Options;

/// Two processes' wires.
struct Pair {
    a: Wire,
    b: Wire,
}

impl Pair {
    /// Two that are connected, once.
    fn new(options: &Options) -> Self {
        let store = MemStore::new();
        let join = |me: u32| {
            let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
            let (firsts, epoch, port, cores) = (vec![0, 1], EPOCH, None, 2);
            let liveness = Duration::from_secs(10);
            let site = Site { me, firsts, epoch, address, port, cores, liveness, options };
            let host = HostId::here().unwrap();
            let process = std::process::id();
            let member = |rank| Member { rank: Rank(rank), host: host.clone(), address, process };
            let members: Vec<Member> = (0..2).map(member).collect();
            let round = Round::new(&store, me, &members, Deadline::after(LONG));
            meet(&site, None, &store, &round).unwrap()
        };
        let (a, b) = thread::scope(|scope| {
            let a = scope.spawn(|| join(0));
            let b = join(1);
            (a.join().unwrap(), b)
        });
        let pair = Self { a, b };
        pair.connect(1);
        pair
    }

    /// Waits until there are so many connections.
    fn connect(&self, streams: usize) {
        self.until("they are connected", || {
            for (wire, other) in [(&self.a, 1), (&self.b, 0)] {
                wire.connect(&mut wire.lock(), other);
            }
            let count = |wire: &Wire, other: usize| wire.lock().peers[other].streams.len();
            count(&self.a, 1) >= streams && count(&self.b, 0) >= streams
        });
    }

    /// Goes on with both until something is so.
    fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < LONG, "it takes too long until {what}");
            for wire in [&self.a, &self.b] {
                wire.doze(|| false, SOON);
                wire.glance();
            }
        }
    }

    /// Has the first send frames on track 1 until no more goes. How many are whole, and how much of the
    /// next is out.
    fn fill(&self, data: &[u8]) -> (u32, usize) {
        let (mut frame, mut done) = (0, 0);
        while self.a.send(1, &part(1, frame, data.len()), &[data.into()], &mut done).unwrap()
            == Moved::Whole
        {
            (frame, done) = (frame + 1, 0);
        }
        (frame, done)
    }

    /// Has the second receive these frames of track 1, all of this data.
    fn receive(&self, frames: u32, data: &[u8]) {
        let (mut next, mut done, mut into) = (0, 0, vec![0; data.len()]);
        self.until("all frames have come", || {
            let target = Target::from(&mut into[..]);
            if self.b.receive(0, &wanted(1, next), &[target], &mut done).unwrap() == Moved::Whole {
                assert!(into == data, "frame {next} is what was sent");
                (next, done) = (next + 1, 0);
                into.fill(0);
            }
            next == frames
        });
    }
}

fn part(track: u16, position: u32, bytes: usize) -> Header {
    let (label, bytes) = (Label { track, position }, bytes as u32);
    Header { label, bytes, digest: DIGEST, ..word(Kind::Part, GROUP, EPOCH, 1) }
}

fn wanted(track: u16, position: u32) -> Wanted {
    Wanted { group: GROUP, number: 1, digest: DIGEST, label: Label { track, position } }
}

/// Bytes that tell where they are.
fn data(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn a_frame_goes_on_where_it_was_begun_when_there_are_more_connections() {
    let pair = Pair::new(&Options::default());
    let data = data(1 << 20);
    let (frame, mut done) = pair.fill(&data);
    assert!(done > 0, "one is on its way");
    pair.a.lock().tuning = Tuning::new(Some(2));
    pair.connect(2);
    let mut is_out = false;
    let (mut next, mut got, mut into) = (0, 0, vec![0; data.len()]);
    pair.until("the last frame has come", || {
        let header = part(1, frame, data.len());
        is_out = is_out
            || pair.a.send(1, &header, &[(&data[..]).into()], &mut done).unwrap() == Moved::Whole;
        let target = Target::from(&mut into[..]);
        if pair.b.receive(0, &wanted(1, next), &[target], &mut got).unwrap() == Moved::Whole {
            assert!(into == data, "frame {next} is what was sent");
            (next, got) = (next + 1, 0);
        }
        next == frame + 1
    });
}

#[test]
fn a_sealed_frame_that_is_said_to_be_out_arrives() {
    let pair = Pair::new(&Options { encrypt: true, ..Options::default() });
    let data = data(50_000);
    let (frames, _) = pair.fill(&data);
    pair.receive(frames, &data);
}

#[test]
fn a_frame_that_was_given_up_is_not_taken_for_whole() {
    let pair = Pair::new(&Options::default());
    let data = data(1 << 20);
    let (frames, done) = pair.fill(&data);
    assert!(done > 0, "one is on its way");
    pair.a.halt(GROUP, &[0, 1], Ending::found(0, vec![1]));
    pair.receive(frames, &data);
    let (mut done, mut into) = (0, vec![0; data.len()]);
    let target = Target::from(&mut into[..]);
    pair.until("it is known that the group has ended", || {
        let moved = pair.b.receive(0, &wanted(1, frames), &[target], &mut done).unwrap();
        assert_ne!(moved, Moved::Whole, "the one that was given up");
        pair.b.lock().has_ended(GROUP)
    });
}

#[test]
fn what_came_is_read_though_the_other_has_gone() {
    let Pair { a, b } = Pair::new(&Options::default());
    // As much as has room on this side.
    let data = data(10_000);
    for frame in 0..5 {
        let sent = b.send(0, &part(1, frame, data.len()), &[(&data[..]).into()], &mut 0).unwrap();
        assert_eq!(sent, Moved::Whole);
    }
    b.leave(GROUP, &[0, 1]);
    drop(b);
    for other in GROUP + 1..GROUP + 4 {
        // What is said to somebody who is gone has the system cut the connection off.
        thread::sleep(50 * SOON);
        a.leave(other, &[0, 1]);
    }
    for frame in 0..5 {
        a.glance();
        let mut into = vec![0; data.len()];
        let target = Target::from(&mut into[..]);
        let moved = a.receive(1, &wanted(1, frame), &[target], &mut 0).unwrap();
        assert!(moved == Moved::Whole && into == data, "frame {frame}");
    }
}

#[test]
fn messages_leave_room_for_calls() {
    let pair = Pair::new(&Options::default());
    let (message, mut done) = (data(32 << 20), 0);
    let letter = Letter { bytes: message.len() as u64, tag: 1, kind: 0 };
    let (mut sent, mut out, mut got, mut into) = (Moved::Nothing, 0, 0, [0; 8]);
    let target = Target::from(&mut into[..]);
    pair.until("the call's part has come", || {
        let all = Source::from(&message[..]);
        let letters = pair.a.send_letter(1, (GROUP, 1), letter, all, &mut done).unwrap();
        if letters == Moved::Nothing && sent != Moved::Whole {
            sent = pair.a.send(1, &part(0, 0, 8), &[(&[1; 8][..]).into()], &mut out).unwrap();
        }
        pair.b.make_way(GROUP, 1, &[(0, wanted(0, 0).label)]).unwrap();
        pair.b.receive(0, &wanted(0, 0), &[target], &mut got).unwrap() == Moved::Whole
    });
    assert_eq!(into, [1; 8]);
}

#[test]
fn a_group_that_has_ended_leaves_the_connection_to_others() {
    let pair = Pair::new(&Options::default());
    let (_, done) = pair.fill(&data(1 << 20));
    assert!(done > 0, "a frame is on its way");
    pair.b.halt(GROUP, &[0, 1], Ending::found(1, vec![1]));
    let other = Header { group: GROUP + 1, ..part(0, 0, 8) };
    let wanted = Wanted { group: GROUP + 1, ..wanted(0, 0) };
    let (mut sent, mut out, mut got, mut into) = (Moved::Nothing, 0, 0, [0; 8]);
    let target = Target::from(&mut into[..]);
    pair.until("another group's part has come", || {
        if sent != Moved::Whole {
            sent = pair.a.send(1, &other, &[(&[1; 8][..]).into()], &mut out).unwrap();
        }
        pair.b.make_way(GROUP + 1, 1, &[(0, wanted.label)]).unwrap();
        pair.b.receive(0, &wanted, &[target], &mut got).unwrap() == Moved::Whole
    });
}

/// The message is taken to where it belongs, then somebody waits for what is behind it, so that it is
/// put away, then it is taken further.
#[test]
fn a_message_that_was_taken_in_part_can_be_kept_and_taken_further() {
    for options in [Options::default(), Options { encrypt: true, ..Options::default() }] {
        let pair = Pair::new(&options);
        pair.b.enter(GROUP, &[0, 1]);
        let (message, mut done, mut taken) = (data((1 << 20) + 3), 0, 0);
        let letter = Letter { bytes: message.len() as u64, tag: 5, kind: 2 };
        let mut into = vec![0; message.len()];
        let target = Target::from(&mut into[..]);
        let (mut is_out, mut turn) = (false, 0);
        pair.until("all of the message has come", || {
            if !is_out {
                // A little at a time, so that pieces arrive in part.
                let all = Source::from(&message[..]);
                let moved = pair.a.send_letter(1, (GROUP, 1), letter, all, &mut done).unwrap();
                is_out = moved == Moved::Whole;
            }
            turn += 1;
            if turn % 3 == 0 {
                pair.b.clear(0);
            }
            match pair.b.front_letter(GROUP, 0).unwrap() {
                None => false,
                Some(front) => {
                    assert_eq!(front, letter);
                    let moved = pair.b.take_letter(GROUP, 0, Some(target), &mut taken).unwrap();
                    moved == Moved::Whole
                }
            }
        });
        assert!(into == message, "it is what was sent");
    }
}

#[test]
fn a_message_can_be_thrown_away_as_it_comes_and_the_next_one_taken() {
    let pair = Pair::new(&Options::default());
    pair.b.enter(GROUP, &[0, 1]);
    let (message, mut taken) = (data(600_000), 0);
    let mut into = vec![0; message.len()];
    let target = Target::from(&mut into[..]);
    for (number, keep) in [(1, None), (2, Some(target))] {
        let letter = Letter { bytes: message.len() as u64, tag: number as u32, kind: 0 };
        let (mut done, mut is_out) = (0, false);
        pair.until("it has come", || {
            if !is_out {
                let all = Source::from(&message[..]);
                let moved = pair.a.send_letter(1, (GROUP, number), letter, all, &mut done).unwrap();
                is_out = moved == Moved::Whole;
            }
            let is_there = pair.b.front_letter(GROUP, 0).unwrap().is_some();
            is_there && pair.b.take_letter(GROUP, 0, keep, &mut taken).unwrap() == Moved::Whole
        });
        taken = 0;
    }
    assert!(into == message, "the second one");
}

/// A thread that waits for a message does not watch a connection at whose front is another thread's part
/// of a call. When that is gone, it has to look.
#[test]
fn whoever_sleeps_behind_anothers_part_is_woken_when_it_is_taken() {
    let pair = Pair::new(&Options::default());
    let (a, b) = (&pair.a, &pair.b);
    b.enter(GROUP, &[0, 1]);
    let mine = Wanted { group: GROUP + 1, ..wanted(0, 0) };
    b.make_way(GROUP + 1, 1, &[(0, mine.label)]).unwrap();
    let part = Header { group: GROUP + 1, ..part(0, 0, 8) };
    assert_eq!(a.send(1, &part, &[(&[3; 8][..]).into()], &mut 0).unwrap(), Moved::Whole);
    let letter = Letter { bytes: 8, tag: 1, kind: 0 };
    a.send_letter(1, (GROUP, 1), letter, (&[4; 8][..]).into(), &mut 0).unwrap();
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let began = Instant::now();
            let look = || b.front_letter(GROUP, 0).unwrap().is_some();
            while !look() && began.elapsed() < LONG {
                b.doze(look, LONG);
            }
            began.elapsed()
        });
        let sleeps = || {
            let hub = b.lock();
            hub.dozing == 1 && hub.peers[0].streams[0].is_left_out()
        };
        let began = Instant::now();
        while !sleeps() {
            assert!(began.elapsed() < LONG, "nobody sleeps");
            thread::sleep(SOON);
        }
        thread::sleep(20 * SOON);
        b.glance();
        let mut into = [0; 8];
        let moved = b.receive(0, &mine, &[Target::from(&mut into[..])], &mut 0).unwrap();
        assert_eq!((moved, into), (Moved::Whole, [3; 8]));
        assert!(sleeper.join().unwrap() < LONG, "it slept on");
    });
}

#[test]
fn what_comes_during_a_glance_is_seen_at_the_next() {
    let pair = Pair::new(&Options::default());
    let (mut into, mut got) = ([0; 8], 0);
    let target = Target::from(&mut into[..]);
    let mut look = || pair.b.receive(0, &wanted(0, 0), &[target], &mut got).unwrap();
    pair.b.glance();
    assert_eq!(look(), Moved::Nothing);
    pair.a.send(1, &part(0, 0, 8), &[(&[3; 8][..]).into()], &mut 0).unwrap();
    thread::sleep(50 * SOON);
    assert_eq!(look(), Moved::Nothing, "it was found empty");
    pair.b.glance();
    assert_eq!(look(), Moved::Whole);
}

const GROUP: u64 = 7;
const EPOCH: u64 = 1;
const DIGEST: u64 = 5;
const SOON: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(20);

#[test]
fn one_who_ends_in_good_order_has_left_and_one_whose_connection_ends_has_not() {
    let Pair { a, b } = Pair::new(&Options::default());
    drop(b);
    let began = Instant::now();
    while !a.is_lost(1) {
        assert!(began.elapsed() < LONG, "its end is seen");
        a.doze(|| false, SOON);
    }
    assert!(a.has_left(GROUP, 1), "also a group that it never was in");
    assert_eq!(a.lock().mourned, [], "nobody is dead");

    let pair = Pair::new(&Options::default());
    pair.b.lock().peers[0].streams.clear();
    pair.until("its end is seen", || pair.a.is_lost(1));
    assert!(!pair.a.has_left(GROUP, 1));
    assert_eq!(pair.a.lock().mourned, [1]);
}

#[test]
fn a_wire_ends_in_good_order_though_a_thread_has_not_found_out() {
    let Pair { a, b } = Pair::new(&Options::default());
    // As the progress thread does, and the door's.
    let switch = b.clone();
    drop(b);
    let began = Instant::now();
    while !a.has_left(GROUP, 1) {
        assert!(began.elapsed() < LONG, "its end is heard");
        a.doze(|| false, SOON);
    }
    assert!(!switch.is_connected(0), "what it said before has arrived");
}

#[test]
fn one_who_ends_in_good_order_is_read_to_its_end_however_long_that_takes() {
    let pair = Pair::new(&Options::default());
    pair.a.lock().tuning = Tuning::new(Some(2));
    pair.b.lock().tuning = Tuning::new(Some(2));
    pair.connect(2);
    let Pair { a, b } = pair;
    drop(b);
    let mut hub = a.lock();
    hub.peers[1].last_words.hear_bye(2);
    hub.peers[1].end_stream(0, "it has ended");
    drop(hub);
    thread::sleep(Duration::from_millis(600));
    assert!(!a.is_lost(1), "the other connection is not read yet");
}

#[test]
fn what_is_said_of_another_counts_when_its_own_end_may_not_come() {
    let pair = Pair::new(&Options::default());
    pair.a.lock().hear_of_death(1, 1);
    assert!(!pair.a.is_lost(1), "there is a connection, whose end would come");
    pair.until("it counts after a while", || pair.a.is_lost(1));
    pair.a.lock().hear_of_death(1, 77);
    assert_eq!(pair.a.mourned(1), Some(1), "whom nobody knows is not remembered");
}

#[test]
fn whom_a_process_knows_to_be_dead_it_says_before_it_ends() {
    let pair = Pair::new(&Options::default());
    pair.b.lock().mourned.push(0);
    pair.b.tell_of_the_dead(&mut pair.b.lock(), 0);
    let Pair { a, b } = pair;
    drop(b);
    let began = Instant::now();
    while !a.has_left(GROUP, 1) {
        assert!(began.elapsed() < LONG, "its end is heard");
        a.doze(|| false, SOON);
    }
    assert_eq!(a.mourned(1), Some(0));
}

#[test]
fn one_who_leaves_a_group_that_has_ended_says_first_that_it_has() {
    let pair = Pair::new(&Options::default());
    let ending = Ending::found(1, b"enough".to_vec());
    // It has heard so from a third.
    assert!(pair.b.enter(GROUP, &[0, 1]).hear(ending.clone()));
    let heard = pair.a.enter(GROUP, &[0, 1]);
    pair.b.leave(GROUP, &[0, 1]);
    pair.until("it has left", || pair.a.has_left(GROUP, 1));
    assert_eq!(heard.get(), Some(&ending));
}

#[test]
fn one_who_has_said_on_one_of_two_connections_that_it_leaves_is_sent_no_more() {
    let pair = Pair::new(&Options::default());
    pair.a.enter(GROUP, &[0, 1]);
    pair.a.lock().peers[1].leave(GROUP, 2);
    assert!(pair.a.is_leaving(GROUP, 1) && !pair.a.has_left(GROUP, 1));
    pair.a.lock().peers[1].leave(GROUP, 2);
    assert!(pair.a.has_left(GROUP, 1));
}
