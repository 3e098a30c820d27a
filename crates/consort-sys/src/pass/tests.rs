//! Ranks as threads, and strangers of all kinds. Ranks as processes are in `tests/sharing`.

mod guests;

use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::*;
use guests::{Guest, LIMIT, TOKEN, doors, file, meet, soon};

#[test]
fn every_rank_gets_what_every_other_brought() {
    let met = meet(&[3, 0, 7, 1, 12], |_, _| {});
    for (rank, peers) in &met {
        let peers = peers.as_ref().unwrap();
        let others: Vec<_> = [0, 1, 3, 7, 12].into_iter().filter(|other| other != rank).collect();
        assert_eq!(peers.iter().map(|peer| peer.rank).collect::<Vec<_>>(), others);
        for peer in peers {
            assert_eq!(size_of(peer.descriptor.as_fd()), Ok(guests::size_for(peer.rank)));
            assert_eq!(peer.process, std::process::id());
            assert_ne!(peer.life.sign(), crate::life::Sign::Ended);
        }
    }
}

#[test]
fn a_second_descriptor_goes_with_the_first() {
    let (rooms, all) = doors(&[0, 1]);
    let threads: Vec<_> = (0..)
        .zip(rooms)
        .map(|(rank, door)| {
            let peers = vec![all[1 - rank as usize].clone()];
            thread::spawn(move || {
                let (first, second) = (file(1), file(guests::size_for(rank)));
                let (descriptor, second) = (first.as_fd(), Some(second.as_fd()));
                door.exchange(
                    Offer { rank, descriptor, second, token: &TOKEN },
                    &peers,
                    soon(LIMIT),
                )
            })
        })
        .collect();
    for (rank, thread) in (0..).zip(threads) {
        let [peer] = &thread.join().unwrap().unwrap()[..] else { panic!("one other") };
        let second = peer.second.as_ref().unwrap();
        assert_eq!(size_of(peer.descriptor.as_fd()), Ok(1));
        assert_eq!(size_of(second.as_fd()), Ok(guests::size_for(1 - rank)));
    }
}

#[test]
fn one_rank_alone_has_nobody_to_wait_for() {
    let file = file(1);
    let offer = Offer { rank: 0, descriptor: file.as_fd(), second: None, token: &TOKEN };
    assert!(Door::open().unwrap().exchange(offer, &[], Instant::now()).unwrap().is_empty());
}

#[test]
fn a_rank_with_another_token_is_refused_and_the_right_ones_get_through() {
    let mut refusals = Vec::new();
    let met = meet(&[2, 0, 1], |rank, peers| {
        // Somebody else comes to rank 2, which is there, as rank 0 and as rank 1, which are not.
        for from in [0, 1].into_iter().filter(|_| rank == 0) {
            let peer = peers.iter().find(|peer| peer.rank == 2).unwrap().clone();
            let (file, door) = (file(1), Door::open().unwrap());
            let offer =
                Offer { rank: from, descriptor: file.as_fd(), second: None, token: &[9; 32] };
            refusals.push(door.exchange(offer, &[peer], soon(LIMIT)).unwrap_err());
        }
    });
    assert!(met.iter().all(|(_, peers)| peers.as_ref().is_ok_and(|peers| peers.len() == 2)));
    assert_eq!(refusals.len(), 2);
    for error in refusals {
        assert!(matches!(error, PassError::Refused { rank: 2, why: Refusal::Token }), "{error}");
    }
}

#[test]
fn the_silent_and_the_noisy_do_not_hold_up_the_others() {
    let started = Instant::now();
    let mut guests = Vec::new();
    let met = meet(&[0, 1], |rank, peers| {
        let name = &peers.iter().find(|peer| peer.rank == rank).unwrap().name;
        for kind in 0..3 * meeting::STRANGERS {
            let guest = Guest::knock(name);
            let words: &[u8] = [&b""[..], b"csrt-hi\n", &[0xFF; 4096]][kind % 3];
            guest.say(words);
            guests.push(guest);
        }
    });
    for (_, peers) in met {
        assert_eq!(peers.unwrap().len(), 1);
    }
    assert!(started.elapsed() < LIMIT / 2, "{:?}", started.elapsed());
}

#[test]
fn whoever_says_nothing_is_let_go() {
    let door = Door::open().unwrap();
    let guest = Guest::knock(door.name());
    let file = file(1);
    let peers = [PeerDoor { rank: 0, name: String::new(), process: None }];
    let offer = Offer { rank: 1, descriptor: file.as_fd(), second: None, token: &TOKEN };
    let until = soon(meeting::SILENCE + Duration::from_secs(1));
    let error = door.exchange(offer, &peers, until).unwrap_err();
    assert!(error.to_string().contains("it said nothing for 2s"), "{error}");
    assert_eq!(guest.hear(), 0, "hung up");
}

#[test]
fn the_deadline_names_who_did_not_come() {
    let (doors, peers) = doors(&[0, 1, 2, 3]);
    let mut doors = doors.into_iter();
    let (first, second) = (doors.next().unwrap(), doors.next().unwrap());
    // Ranks 2 and 3 have opened their doors but never come to the meeting.
    let _absent: Vec<_> = doors.collect();
    let began = Instant::now();
    let until = began + Duration::from_millis(700);
    let errors = [(0, first), (1, second)].map(|(rank, door)| {
        let peers: Vec<_> = peers.iter().filter(|peer| peer.rank != rank).cloned().collect();
        thread::spawn(move || {
            let file = file(1);
            let offer = Offer { rank, descriptor: file.as_fd(), second: None, token: &TOKEN };
            door.exchange(offer, &peers, until).unwrap_err()
        })
    });
    for error in errors {
        let error = error.join().unwrap();
        let PassError::Missing { ranks, waited, turned_away } = &error else { panic!("{error}") };
        assert_eq!((&ranks[..], &turned_away[..]), (&[2, 3][..], &[][..]));
        assert!(Instant::now() >= until && *waited <= began.elapsed(), "{error}");
        assert!(error.to_string().starts_with("ranks 2, 3 did not meet the others of this host"));
    }
}

/// What rank 1 is told when it meets this peer, which does nothing.
fn meet_alone(peer: PeerDoor) -> PassError {
    let file = file(1);
    let offer = Offer { rank: 1, descriptor: file.as_fd(), second: None, token: &TOKEN };
    Door::open().unwrap().exchange(offer, &[peer], soon(LIMIT)).unwrap_err()
}

#[test]
fn a_closed_door_is_an_error_at_once() {
    let name = Door::open().unwrap().name().to_owned();
    let error = meet_alone(PeerDoor { rank: 2, name, process: None });
    assert!(matches!(error, PassError::Closed { rank: 2, source: Errno::CONNREFUSED }), "{error}");
}

#[test]
fn whoever_waits_gives_up_when_it_hears_that_there_is_no_use() {
    let (door, file) = (Door::open().unwrap(), file(1));
    let peers = [PeerDoor { rank: 0, name: String::new(), process: None }];
    let offer = Offer { rank: 1, descriptor: file.as_fd(), second: None, token: &TOKEN };
    let mut looks = 0;
    let met = door.exchange_unless(offer, &peers, soon(LIMIT), || {
        looks += 1;
        if looks < 3 { Ok(()) } else { Err(PassError::Random) }
    });
    assert!(matches!(met, Err(PassError::Random)), "{met:?}");
}

#[test]
fn a_peer_that_has_ended_is_an_error_at_once() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let process = child.id();
    child.wait().unwrap();
    let door = Door::open().unwrap();
    for rank in [0, 2] {
        let peer = PeerDoor { rank, name: door.name().into(), process: Some(process) };
        let error = meet_alone(peer);
        assert!(matches!(error, PassError::Ended { rank: named, .. } if named == rank), "{error}");
    }
}

#[test]
fn a_process_that_was_not_announced_is_refused() {
    let (mut doors, mut peers) = doors(&[0, 1]);
    peers[0].process = Some(1);
    let (door, own) = (doors.pop().unwrap(), peers.split_off(1));
    let dialling = thread::spawn({
        let door = doors.pop().unwrap();
        move || {
            let file = file(1);
            let offer = Offer { rank: 0, descriptor: file.as_fd(), second: None, token: &TOKEN };
            door.exchange(offer, &own, soon(Duration::from_secs(1))).unwrap_err()
        }
    });
    let file = file(1);
    let offer = Offer { rank: 1, descriptor: file.as_fd(), second: None, token: &TOKEN };
    let error = door.exchange(offer, &peers, soon(Duration::from_secs(1))).unwrap_err();
    let why = format!("it is process {}, process 1 was announced", std::process::id());
    assert!(error.to_string().contains(&why), "{error}");
    dialling.join().unwrap();
}

#[test]
fn a_process_of_another_user_is_refused_on_either_side() {
    if !rustix::process::geteuid().is_root() {
        return consort_testkit::skip("only root can have a process of another user");
    }
    let (door, name) = guests::door_of_another_user();
    let error = meet_alone(PeerDoor { rank: 2, name, process: None });
    let why = Refusal::User { found: guests::NOBODY, ours: 0 };
    assert!(matches!(&error, PassError::Refused { rank: 2, why: found } if *found == why));
    drop(door);

    let mut strangers = Vec::new();
    let met = meet(&[0, 1], |rank, peers| {
        let name = &peers.iter().find(|peer| peer.rank == rank).unwrap().name;
        strangers.push(guests::knock_as_another_user(name));
    });
    assert!(met.iter().all(|(_, peers)| peers.is_ok()));
    assert!(strangers.iter().all(|stranger| stranger.hear() == 0), "all were hung up on");
}

#[test]
fn a_rank_that_hands_over_the_wrong_thing_is_an_error_that_names_it() {
    let empty = file(0);
    let right = file(1);
    let cases = [
        (vec![], 1, Refusal::Descriptors { found: 0, expected: 1 }),
        (vec![empty.as_fd()], 1, Refusal::Size { found: 0, announced: 1 }),
        (vec![right.as_fd(), empty.as_fd()], 1, Refusal::Descriptors { found: 2, expected: 1 }),
    ];
    for (descriptors, size, why) in cases {
        let door = Door::open().unwrap();
        let guest = Guest::knock(door.name());
        let host = thread::spawn(|| receive_as_rank_1(door));
        guest.come_as_rank_0(&TOKEN);
        guest.give(frame::Gift { from: 0, size }, &descriptors);
        let error = host.join().unwrap().unwrap_err();
        let PassError::Refused { rank: 0, why: found } = &error else { panic!("{error}") };
        assert_eq!(*found, why);
    }
}

#[test]
fn a_descriptor_that_comes_before_the_proof_is_refused() {
    let door = Door::open().unwrap();
    let guest = Guest::knock(door.name());
    let host = thread::spawn(|| receive_as_rank_1(door));
    guest.give(frame::Gift { from: 0, size: 1 }, &[file(1).as_fd()]);
    assert_eq!(guest.hear(), 0, "hung up");
    let error = host.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("it does not speak as a rank does"), "{error}");
}

#[test]
fn a_rank_that_hangs_up_may_come_again() {
    let door = Door::open().unwrap();
    let name = door.name().to_owned();
    let host = thread::spawn(|| receive_as_rank_1(door));
    Guest::knock(&name).come_as_rank_0(&TOKEN);
    let guest = Guest::knock(&name);
    guest.come_as_rank_0(&TOKEN);
    guest.give(frame::Gift { from: 0, size: 7 }, &[file(7).as_fd()]);
    let peers = host.join().unwrap().unwrap();
    assert_eq!(size_of(peers[0].descriptor.as_fd()), Ok(7));
}

/// What becomes of rank 1 when it waits at this door for rank 0.
fn receive_as_rank_1(door: Door) -> Result<Vec<Peer>, PassError> {
    let file = file(1);
    let offer = Offer { rank: 1, descriptor: file.as_fd(), second: None, token: &TOKEN };
    let peers = [PeerDoor { rank: 0, name: String::new(), process: None }];
    door.exchange(offer, &peers, soon(Duration::from_secs(2)))
}

#[test]
fn a_rank_is_listed_once_and_not_among_its_peers() {
    let peer = |rank| PeerDoor { rank, name: "nowhere".into(), process: None };
    let file = file(1);
    for (peers, twice) in [(vec![peer(2), peer(3), peer(2)], 2), (vec![peer(0), peer(1)], 1)] {
        let offer = Offer { rank: 1, descriptor: file.as_fd(), second: None, token: &TOKEN };
        let error = Door::open().unwrap().exchange(offer, &peers, soon(LIMIT)).unwrap_err();
        assert!(matches!(error, PassError::ListedTwice(rank) if rank == twice), "{error}");
    }
}

#[test]
fn two_doors_have_different_names() {
    let names = [(); 2].map(|()| Door::open().unwrap().name().to_owned());
    assert_ne!(names[0], names[1]);
    assert!(names[0].starts_with("consort-") && names[0].len() == 40, "{names:?}");
}

#[test]
fn a_bell_is_rung_by_those_who_may_come_in() {
    let bell = Bell::hang().unwrap();
    assert_eq!(Bell::ring(bell.name()), Ok(()));
    let name = bell.name().to_owned();
    drop(bell);
    assert!(matches!(Bell::ring(&name), Err(Bar::Lack(_))), "it is gone, not forbidden");
    if rustix::process::geteuid().is_root() {
        let (_door, name) = guests::door_of_another_user();
        let Err(Bar::Forbidden(why)) = Bell::ring(&name) else { panic!("that is another user's") };
        assert!(why.contains("user 65534"), "{why}");
    }
}
