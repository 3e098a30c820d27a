mod world;

use consort_testkit::net::play;

use super::*;
use world::World;

#[test]
fn whoever_finds_what_all_who_reach_the_store_say_the_same_of_a_groups_end() {
    let found = play("consort", "whoever_finds_what_all_who_reach", SEEDS, |seed, shows| {
        World::new(seed, shows).run()
    });
    let Some([ended, several, deaf, lost, breaks, stale]) = found else { return };
    // Worlds in which nothing happens would prove nothing.
    let least = [ended / 2, several, deaf * 2, lost * 2, breaks * 2, stale];
    assert!(least.iter().all(|&count| count > SEEDS / 4), "{found:?} of {SEEDS}");
}

#[test]
fn what_the_store_has_counts_and_without_it_what_was_found() {
    let (mine, earlier) = (Ending::found(1, b"mine".to_vec()), Ending::found(2, b"other".to_vec()));
    let settled = |ending: &Ending| Ending { is_settled: true, ..ending.clone() };
    assert_eq!(mine.clone().settle(Ok(Swap::Swapped)), settled(&mine));
    let told = Ok(Swap::Differs(earlier.entry()));
    assert_eq!(mine.clone().settle(told), settled(&earlier));
    for told in [Ok(Swap::Differs(vec![255; 3])), Ok(Swap::Missing)] {
        assert_eq!(mine.clone().settle(told), mine);
    }
}

#[test]
fn what_is_settled_counts_whatever_was_heard_first_and_only_who_has_it_kept_tells_it() {
    let (found, other) = (Ending::found(1, b"found".to_vec()), Ending::found(2, b"other".to_vec()));
    let settled = Ending { is_settled: true, ..other.clone() };
    let ended = Ended::default();
    assert!(!ended.is_known() && ended.hear(found.clone()) && !ended.hear(other.clone()));
    assert_eq!(ended.get(), Some(&found));
    let silent = || Ok(Swap::Missing);
    assert_eq!(ended.settle(found.clone(), silent()), (found.clone(), false));
    assert!(!ended.hear(settled.clone()));
    assert_eq!(ended.get(), Some(&settled));
    assert_eq!(ended.settle(found, silent()), (settled.clone(), false));
    assert_eq!(Ended::default().settle(other, Ok(Swap::Swapped)), (settled, true));
}

#[test]
fn a_word_says_who_why_and_whether_it_is_settled() {
    for is_settled in [false, true] {
        let ending = Ending { by: 3, verdict: b"why".to_vec(), is_settled };
        let header = Header::decode(&ending.word(7, 1).encode()).unwrap();
        assert_eq!(Ending::heard(&header, b"why".to_vec()), ending);
        assert!(is_of_now(&header, 1, &VecDeque::new()));
        assert!(!is_of_now(&header, 2, &VecDeque::new()));
        assert!(!is_of_now(&header, 1, &[7].into()));
    }
}

/// So many worlds are played.
const SEEDS: u64 = 3000;
