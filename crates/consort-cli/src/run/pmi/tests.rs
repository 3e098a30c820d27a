use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use consort_store::{Deadline, Error as StoreError, MemStore, PrefixStore, Reply, Request, Store};
use proptest::prelude::*;

use super::hall::{Hall, Over, Standing, mapping};
use super::words::{Answer, Ask, Denied, Reader};
use super::{LAST_WORDS, Pmi};
use crate::run::placement::Placement;
use crate::run::status::Status;

/// All that is asked in these bytes, which come in such pieces, and whether they made sense to the end.
fn asked(bytes: &[u8], piece: usize) -> (Vec<Ask>, bool) {
    let (mut reader, mut asks) = (Reader::default(), Vec::new());
    for piece in bytes.chunks(piece.max(1)) {
        reader.feed(piece);
        loop {
            match reader.take() {
                Ok(Some(ask)) => asks.push(ask),
                Ok(None) => break,
                Err(_) => return (asks, false),
            }
        }
    }
    (asks, true)
}

#[test]
fn what_a_library_asks_is_understood_in_whatever_pieces_it_comes() {
    let talk = "cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\ncmd=get_appnum\ncmd=get_my_kvsname\n\
                cmd=get_universe_size\ncmd=put kvsname=k key=-a value=b=c d \ncmd=get kvsname=k key=-a\n\
                cmd=barrier_in \ncmd=publish_name service=s port=p\ncmd=lookup_name service=s\n\
                cmd=abort exitcode=7\ncmd=finalize\n";
    let expected = [
        Ask::Init { version: 1 },
        Ask::Maxes,
        Ask::Appnum,
        Ask::Name,
        Ask::Universe,
        Ask::Put { key: "-a".to_owned(), value: "b=c d".to_owned() },
        Ask::Get { key: "-a".to_owned() },
        Ask::Barrier,
        Ask::Other(Denied::Publish),
        Ask::Other(Denied::Lookup),
        Ask::Abort { code: 7 },
        Ask::Finalize,
    ];
    for piece in [1, 3, 1000] {
        assert_eq!(asked(talk.as_bytes(), piece), (expected.to_vec(), true));
    }
}

#[test]
fn a_request_for_more_processes_is_answered_once_however_many_programs_it_has() {
    let one = "mcmd=spawn\nnprocs=1\nexecname=cmd=finalize\ntotspawns=2\nspawnssofar=1\nendcmd\n";
    let other = "mcmd=spawn\nnprocs=1\ntotspawns=2\nspawnssofar=2\nendcmd\ncmd=finalize\n";
    let found = asked(format!("{one}{other}").as_bytes(), 5);
    assert_eq!(found, (vec![Ask::Other(Denied::Spawn), Ask::Finalize], true));
}

#[test]
fn what_makes_no_sense_ends_the_conversation() {
    let long = "x".repeat(5000);
    let key = "k".repeat(65);
    for wrong in [
        "cmd=unheard_of\n",
        "hello\n",
        "cmd=put key=k\n",
        "cmd=put value=v\n",
        "cmd=get key=\n",
        "cmd=init pmi_version=one\n",
        &format!("cmd=get key={key}\n"),
        &format!("cmd=put key=k value={}\n", &long[..1025]),
        &format!("cmd=get_maxes {long}\n"),
        &long,
    ] {
        assert_eq!(asked(wrong.as_bytes(), 64), (Vec::new(), false), "{wrong}");
    }
    assert!(!asked(b"\xff\xff\n", 1).1);
}

#[test]
fn answers_are_lines_that_the_library_reads() {
    let told = |answer: Answer<'_>| answer.to_string();
    let init = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
    assert_eq!(told(Answer::Init { is_spoken: true }), init);
    assert_eq!(told(Answer::Value(Some("a b"))), "cmd=get_result rc=0 msg=success value=a b");
    assert!(told(Answer::Value(None)).starts_with("cmd=get_result rc=-1 "));
    assert!(told(Answer::Denied(Denied::Spawn)).starts_with("cmd=spawn_result rc=-1 "));
    assert_eq!(told(Answer::Universe(3)), "cmd=universe_size size=3 rc=0");
}

#[test]
fn hosts_that_have_as_many_ranks_are_said_together() {
    assert_eq!(mapping(&[3]), "(vector,(0,1,3))");
    assert_eq!(mapping(&[2, 2, 2]), "(vector,(0,3,2))");
    assert_eq!(mapping(&[2, 4, 4, 1]), "(vector,(0,1,2),(1,2,4),(3,1,1))");
}

/// The halls of so many hosts that have two ranks each.
fn halls(nodes: u32) -> Vec<Hall> {
    halls_at(nodes, &(Arc::new(MemStore::new()) as Arc<dyn Store>))
}

/// The same, which meet in this store.
fn halls_at(nodes: u32, store: &Arc<dyn Store>) -> Vec<Hall> {
    (0..nodes).map(|node| Hall::new(&place(node, nodes), store)).collect()
}

/// A host's place among so many that have two ranks each.
fn place(node: u32, nodes: u32) -> Placement {
    Placement {
        job: "j".to_owned(),
        epoch: 3,
        restarts: 0,
        node,
        nodes,
        first_rank: 2 * node,
        local_world: 2,
        slots: vec![2; nodes as usize],
        world: 2 * nodes,
        master_address: String::new(),
        master_port: 0,
        store: String::new(),
        secret_file: "".into(),
    }
}

/// What serves the two ranks of one host.
fn pmi() -> Pmi {
    let store: Arc<dyn Store> = Arc::new(MemStore::new());
    Pmi::new(&place(0, 1), &store, mpsc::channel().0)
}

#[test]
fn a_rank_that_has_ended_has_said_all_that_it_said() {
    for round in 0..200 {
        let (pmi, success) = (pmi(), Status::Exited(0));
        let seat = pmi.seat(0).unwrap();
        // A child of the rank may keep the socket.
        let child = (round % 2 == 0).then(|| seat.socket.try_clone().unwrap());
        (&seat.socket).write_all(b"cmd=init pmi_version=1\ncmd=finalize\n").unwrap();
        drop(seat);
        assert_eq!(pmi.ended(0, success, true), success, "round {round}");
        let seat = pmi.seat(1).unwrap();
        (&seat.socket).write_all(b"cmd=init pmi_version=1\ncmd=barrier_in\n").unwrap();
        drop(seat);
        assert_eq!(pmi.ended(1, success, true), Status::LeftMpi, "round {round}");
        drop(child);
    }
}

#[test]
fn a_rank_that_ends_is_not_waited_for_in_its_barrier_or_because_of_its_child() {
    let pmi = pmi();
    let seat = pmi.seat(0).unwrap();
    (&seat.socket).write_all(b"cmd=init pmi_version=1\ncmd=barrier_in\n").unwrap();
    let began = Instant::now();
    assert_eq!(pmi.ended(0, Status::Killed(9), true), Status::Killed(9));
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

/// A store that takes its time to tell anything.
#[derive(Debug)]
struct Slow(MemStore);

impl Store for Slow {
    fn call(&self, request: &Request<'_>, until: Deadline) -> Result<Reply, StoreError> {
        if !request.can_change() {
            thread::sleep(Duration::from_secs(10));
        }
        self.0.call(request, until)
    }

    fn duplicate(&self) -> Result<Arc<dyn Store>, StoreError> {
        self.0.duplicate()
    }
}

#[test]
fn ranks_that_ended_while_the_store_is_silent_are_waited_for_together() {
    let store: Arc<dyn Store> = Arc::new(Slow(MemStore::new()));
    let place = Placement { local_world: 4, slots: vec![4, 4], world: 8, ..place(0, 2) };
    let pmi = Pmi::new(&place, &store, mpsc::channel().0);
    let seats = [0, 1, 2, 3].map(|rank| pmi.seat(rank).unwrap());
    let ask = b"cmd=get kvsname=j key=elsewhere\n";
    seats.iter().for_each(|seat| (&seat.socket).write_all(ask).unwrap());
    // They are at the store when their ends are known.
    thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    (0..4).for_each(|rank| assert_eq!(pmi.ended(rank, Status::Killed(9), true), Status::Killed(9)));
    assert!(began.elapsed() < 2 * LAST_WORDS, "{:?}", began.elapsed());
}

#[test]
fn those_who_wait_for_one_that_finalizes_or_falls_silent_are_not_answered_any_more() {
    for last in ["cmd=finalize\n", ""] {
        let pmi = pmi();
        let seats = [0, 1].map(|rank| pmi.seat(rank).unwrap());
        (&seats[0].socket).write_all(b"cmd=barrier_in\n").unwrap();
        (&seats[1].socket).write_all(last.as_bytes()).unwrap();
        seats[1].socket.shutdown(Shutdown::Write).unwrap();
        seats[0].socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert_eq!((&seats[0].socket).read(&mut [0; 64]).unwrap(), 0, "{last}");
    }
}

#[test]
fn a_value_is_there_for_ranks_of_all_hosts_once_they_have_met() {
    for nodes in [1, 2, 3] {
        let halls = halls(nodes);
        let talk = |hall: &Hall, rank: usize| {
            for round in 0..3 {
                assert!(hall.put(&format!("{round} {rank}"), &format!("of {rank}")));
                hall.meet().unwrap();
                for other in 0..2 * nodes {
                    let value = hall.get(&format!("{round} {other}")).unwrap();
                    assert_eq!(value, Some(format!("of {other}")));
                }
                assert_eq!(hall.get("what nobody has put").unwrap(), None);
            }
        };
        let talk = &talk;
        thread::scope(|scope| {
            for (rank, hall) in halls.iter().flat_map(|hall| [hall, hall]).enumerate() {
                scope.spawn(move || talk(hall, rank));
            }
        });
    }
}

#[test]
fn a_value_can_be_put_anew_where_there_is_no_room_for_another() {
    let hall = &halls(1)[0];
    let full = (0..).take_while(|number: &u32| hall.put(&number.to_string(), "first")).count();
    assert!(full > 0 && !hall.put("one more", "first"));
    assert!(hall.put("0", "second"));
    assert_eq!(hall.get("0").unwrap().as_deref(), Some("second"));
    assert_eq!(hall.get("one more").unwrap(), None);
}

#[test]
fn those_who_wait_for_one_that_does_not_come_are_sent_away_at_the_end() {
    for nodes in [1, 2] {
        let halls = halls(nodes);
        let hall = &halls[0];
        thread::scope(|scope| {
            // On one host one rank is missing, of two hosts the other host.
            let waiting: Vec<_> = (0..nodes).map(|_| scope.spawn(|| hall.meet())).collect();
            hall.close();
            for rank in waiting {
                assert!(matches!(rank.join().unwrap(), Err(Over::Closed)));
            }
        });
    }
}

#[test]
fn those_who_wait_hear_that_one_has_ended_on_their_host_or_another() {
    for nodes in [1, 2] {
        let halls = halls(nodes);
        thread::scope(|scope| {
            // On one host one rank waits, of two hosts all of the first.
            let waiting: Vec<_> = (0..nodes).map(|_| scope.spawn(|| halls[0].meet())).collect();
            let last = halls.last().unwrap();
            assert!(last.stand(1, Standing::Inside));
            last.miss(2 * nodes - 1);
            assert_eq!(last.leave(1, 2 * nodes - 1), Standing::Inside);
            assert!(!last.stand(1, Standing::Aborted(3)), "it has ended");
            let heard: Vec<_> = waiting.into_iter().map(|rank| rank.join().unwrap()).collect();
            let is_missing = |it: &Result<(), Over>| matches!(it, Err(Over::Missing(rank)) if *rank == 2 * nodes - 1);
            assert!(heard.iter().all(is_missing), "{heard:?}");
            assert!(is_missing(&last.meet()), "who comes later hears it, too");
        });
    }
}

#[test]
fn those_inside_are_forlorn_once_when_one_ends_before_it_came_and_not_when_it_had_finished() {
    let hall = &halls(1)[0];
    hall.stand(0, Standing::Inside);
    assert_eq!(hall.take_forlorn(), [0; 0]);
    hall.leave(1, 1);
    assert_eq!(hall.take_forlorn(), [0]);
    assert_eq!(hall.take_forlorn(), [0; 0]);
    assert_eq!(hall.leave(0, 0), Standing::Forlorn(1));
    let hall = &halls(1)[0];
    hall.stand(0, Standing::Inside);
    hall.stand(1, Standing::Finalized);
    assert_eq!(hall.leave(1, 1), Standing::Finalized);
    assert_eq!(hall.take_forlorn(), [0; 0]);
}

#[test]
fn all_ranks_of_a_host_hear_that_the_others_cannot_be_met() {
    let store: Arc<dyn Store> = Arc::new(MemStore::new());
    // Where hosts are counted there is something that is no number.
    PrefixStore::new("j/3/pmi", store.clone()).set("arrived/0", b"many").unwrap();
    let hall = Arc::new(halls_at(2, &store).remove(0));
    let (say, hear) = mpsc::channel();
    for _ in 0..2 {
        let (hall, say) = (hall.clone(), say.clone());
        thread::spawn(move || say.send(hall.meet()).unwrap());
    }
    let both = [(); 2].map(|()| hear.recv_timeout(Duration::from_secs(10)).unwrap());
    let count = |is: fn(&Over) -> bool| {
        both.iter().flat_map(|it| it.as_ref().err()).filter(|it| is(it)).count()
    };
    assert_eq!(count(|it| matches!(it, Over::Store(_))), 1, "{both:?}");
    assert_eq!(count(|it| matches!(it, Over::Closed)), 1, "{both:?}");
}

/// The ranks of each host, as a library reads them from a mapping.
fn read_mapping(text: &str) -> Vec<u32> {
    let blocks = text.strip_prefix("(vector,(").unwrap().strip_suffix("))").unwrap();
    let mut slots = Vec::new();
    for block in blocks.split("),(") {
        let numbers: Vec<u32> = block.split(',').map(|it| it.parse().unwrap()).collect();
        let [first, count, each] = numbers[..] else { panic!("{block}") };
        assert_eq!(first as usize, slots.len());
        slots.extend((0..count).map(|_| each));
    }
    slots
}

proptest! {
    #[test]
    fn nothing_that_comes_is_too_much(bytes: Vec<u8>, piece in 1_usize..64) {
        let whole = asked(&bytes, bytes.len());
        prop_assert_eq!(whole, asked(&bytes, piece));
    }

    #[test]
    fn lines_of_likely_words_are_read_alike_in_all_pieces(
        lines in prop::collection::vec(
            prop::sample::select(vec![
                "cmd=", "mcmd=spawn", "endcmd", "key=k", " value=", "put", "get", "init", "\n", " ",
                "totspawns=2", "spawnssofar=2", "pmi_version=1", "barrier_in", "kvsname=x",
            ]),
            0..60,
        ),
        piece in 1_usize..16,
    ) {
        let text = lines.concat();
        prop_assert_eq!(asked(text.as_bytes(), text.len()), asked(text.as_bytes(), piece));
    }

    #[test]
    fn a_mapping_says_how_many_ranks_each_host_has(slots in prop::collection::vec(1_u32..5, 1..40)) {
        prop_assert_eq!(read_mapping(&mapping(&slots)), slots);
    }

    #[test]
    fn a_value_that_was_put_comes_back_as_it_was(value in "[ -~&&[^ ]][ -~]{0,80}[!-~]", key in "[a-zA-Z0-9_-]{1,64}") {
        let put = format!("cmd=put kvsname=n key={key} value={value}\n");
        let (asks, _) = asked(put.as_bytes(), 7);
        prop_assert_eq!(asks, vec![Ask::Put { key, value: value.clone() }]);
        let told = Answer::Value(Some(&value)).to_string();
        prop_assert!(!told.contains('\n') && told.ends_with(&value));
    }
}
