//! Ranks that make the same call with their parts in different forms: in one piece, or in a list.

use consort::{Call, Dtype, Inputs, Outputs, ReduceOp, Target};
use consort_testkit::Context;

use crate::stage::{LONG, device, download, in_worlds, meet, upload};

in_worlds! {
    one_rank_has_room_for_what_is_gathered_in_a_list
    one_rank_has_what_is_combined_and_scattered_in_a_list
}

fn one_rank_has_room_for_what_is_gathered_in_a_list(ctx: &Context) {
    let group = meet(ctx).within(LONG / 4);
    let (me, world) = (group.rank().get(), group.world() as u32);
    let mine = upload(&device(&group), &[me + 1; COUNT]);
    for lister in 0..world {
        let mut room = upload(&device(&group), &vec![0_u32; COUNT * group.world()]);
        let (all, dtype, input) = (room.target(), Dtype::U32, mine.source());
        let parts = backwards(all, world);
        let outputs = if me == lister { Outputs::List(&parts) } else { Outputs::Equal(all) };
        group.call(&Call::AllGather { dtype, input, outputs }).unwrap();
        let mut wanted: Vec<_> = (1..=world).flat_map(|rank| [rank; COUNT]).collect();
        if me == lister {
            wanted.reverse();
        }
        assert_eq!(download::<u32>(&room), wanted, "at rank {me}, and {lister} has the list");
    }
}

fn one_rank_has_what_is_combined_and_scattered_in_a_list(ctx: &Context) {
    let group = meet(ctx).within(LONG / 4);
    let (me, world) = (group.rank().get(), group.world() as u32);
    let (dtype, op) = (Dtype::U32, ReduceOp::Sum);
    for lister in 0..world {
        // Every rank adds so much to the part of each.
        let mut all: Vec<_> = (1..=world).flat_map(|to| [to * (me + 1); COUNT]).collect();
        if me == lister {
            all.reverse();
        }
        let mut all = upload(&device(&group), &all);
        let mut sums = upload(&device(&group), &[0_u32; COUNT]);
        let (all, output) = (all.target(), sums.target());
        let parts: Vec<_> = backwards(all, world).into_iter().map(Into::into).collect();
        let inputs = if me == lister { Inputs::List(&parts) } else { Inputs::Equal(all.into()) };
        group.call(&Call::ReduceScatter { dtype, op, inputs, output }).unwrap();
        let wanted = (me + 1) * (1..=world).sum::<u32>();
        let found = download::<u32>(&sums);
        assert_eq!(found, [wanted; COUNT], "at rank {me}, and {lister} has the list");
    }
}

/// The parts of all ranks in some memory, the first rank's last.
fn backwards(all: Target<'_>, world: u32) -> Vec<Target<'_>> {
    let part = all.len() / world as usize;
    let starts = (0..world as usize).rev().map(|rank| rank * part);
    starts.map(|start| all.slice(start..start + part)).collect()
}

/// How many numbers a part has.
const COUNT: usize = 1000;
