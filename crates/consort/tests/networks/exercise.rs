//! Everything that goes between ranks, with numbers that tell whose they are, for whom, and where they
//! belong.

use consort::{Group, ReduceOp};

/// Collectives, messages and groups of some ranks, with up to so many numbers for each rank.
pub(crate) fn exercise(group: &Group, most: usize) {
    for count in [1, 700, 20_000, most].into_iter().filter(|&count| count <= most) {
        collectives(group, count);
        messages(group, count);
    }
    halves(group);
    group.barrier().unwrap();
}

fn collectives(group: &Group, count: usize) {
    let (me, world) = (group.rank().get(), group.world() as u32);
    let mut sum = numbers(me + 1, 0, count);
    group.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
    let mut expected = vec![0; count];
    for rank in 1..=world {
        let theirs = numbers(rank, 0, count);
        expected.iter_mut().zip(theirs).for_each(|(sum, number)| *sum += number);
    }
    assert!(sum == expected, "a sum of {count} numbers is wrong");

    let outgoing: Vec<u64> = (0..world).flat_map(|to| numbers(me, to, count)).collect();
    let mut incoming = vec![0; outgoing.len()];
    group.all_to_all(&outgoing, &mut incoming).unwrap();
    let expected: Vec<u64> = (0..world).flat_map(|from| numbers(from, me, count)).collect();
    assert!(incoming == expected, "{count} numbers to each rank are wrong");

    for root in 0..world {
        let mut numbers_of_root = numbers(if me == root { root } else { 99 }, 7, count);
        group.broadcast(&mut numbers_of_root, root).unwrap();
        assert!(numbers_of_root == numbers(root, 7, count), "{count} numbers of {root} are wrong");
    }

    let mut gathered = vec![0; world as usize * count];
    group.all_gather(&numbers(me, 8, count), &mut gathered).unwrap();
    let expected: Vec<u64> = (0..world).flat_map(|from| numbers(from, 8, count)).collect();
    assert!(gathered == expected, "{count} numbers of everyone are wrong");
}

/// Everyone sends to the right, now and in the background.
fn messages(group: &Group, count: usize) {
    let (me, world) = (group.rank().get(), group.world() as u32);
    let (left, right) = ((me + world - 1) % world, (me + 1) % world);
    let mut incoming = vec![0; count];
    group.send_recv(&numbers(me, right, count), right, &mut incoming, left, 5).unwrap();
    assert!(incoming == numbers(left, me, count), "a message of {count} numbers is wrong");
    let coming = group.recv_async(vec![0; count], left, 6).unwrap();
    let going = group.send_async(numbers(me, right + 50, count), right, 6).unwrap();
    assert!(coming.wait().unwrap() == numbers(left, me + 50, count), "a message is wrong");
    going.wait().unwrap();
}

/// The even and the odd ranks by themselves.
fn halves(group: &Group) {
    let me = group.rank().get();
    let half = group.split(Some(me % 2), 0).unwrap().unwrap();
    let mut sum = numbers(me, 0, 3000);
    half.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
    let mut expected = vec![0; 3000];
    for rank in (me % 2..group.world() as u32).step_by(2) {
        let theirs = numbers(rank, 0, 3000);
        expected.iter_mut().zip(theirs).for_each(|(sum, number)| *sum += number);
    }
    assert!(sum == expected, "a sum in half of the group is wrong");
}

/// Whose they are, whom they are for, where they belong.
pub(crate) fn numbers(from: u32, to: u32, count: usize) -> Vec<u64> {
    (0..count as u64).map(|at| u64::from(from) << 48 | u64::from(to) << 32 | at).collect()
}
