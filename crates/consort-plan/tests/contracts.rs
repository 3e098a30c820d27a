//! What operations promise, how layouts are read, and how programs are written.

use consort_plan::{Chunks, Collective, How, Layout, Operand, Program, Space, Step, Wanted};

#[test]
fn every_operation_is_found_by_its_name() {
    for op in Collective::all(0) {
        assert_eq!(op.name().parse::<Collective>(), Ok(op));
    }
    let unknown = "allreduce".parse::<Collective>().unwrap_err().to_string();
    assert!(unknown.contains("choose all_reduce, reduce_scatter"), "{unknown}");
}

#[test]
fn roots_belong_to_some_operations() {
    let rooted = Collective::all(0).into_iter().filter(|op| op.root().is_some());
    assert_eq!(rooted.count(), 4);
    assert_eq!(Collective::Reduce { root: 0 }.with_root(3), Collective::Reduce { root: 3 });
    assert_eq!(Collective::AllReduce.with_root(3), Collective::AllReduce);
    assert_eq!(Collective::Gather { root: 2 }.to_string(), "gather (root 2)");
}

#[test]
fn what_goes_in_comes_out_somewhere() {
    for world in [1, 2, 5] {
        for op in Collective::all(world - 1).into_iter().filter(|op| !op.combines()) {
            for rank in 0..world {
                for chunk in 0..op.chunks(Space::Out, world, rank) {
                    let Wanted::Piece { rank: owner, chunk } = op.wanted(rank, chunk) else {
                        panic!("{op} does not combine");
                    };
                    let broadcast = matches!(op, Collective::Broadcast { .. });
                    let space = if broadcast { Space::Out } else { Space::In };
                    assert!(chunk < op.chunks(space, world, owner), "{op}");
                }
            }
        }
    }
}

#[test]
fn chunks_that_share_memory_have_the_same_size() {
    for op in Collective::all(2) {
        for rank in 0..5 {
            for chunk in 0..op.chunks(Space::In, 5, rank) {
                if let Some(other) = op.in_place(rank, chunk) {
                    assert!(other < op.chunks(Space::Out, 5, rank), "{op}");
                    let input = op.vector_chunk(Space::In, rank, chunk);
                    assert_eq!(input, op.vector_chunk(Space::Out, rank, other), "{op}");
                }
            }
        }
    }
}

#[test]
fn layouts_know_who_is_where() {
    let layout = Layout::new(&["a", "b", "a", "c", "b"]);
    assert_eq!((layout.world(), layout.count()), (5, 3));
    assert_eq!(layout.ranks(0), [0, 2]);
    assert_eq!((layout.host(4), layout.local(4)), (1, 1));
    assert!(layout.together(0, 2) && !layout.together(0, 1));
    assert!(!layout.is_even() && !layout.is_in_order());
    let even = Layout::even(7, 3);
    assert_eq!((even.ranks(0), even.ranks(2)), (&[0, 1, 2][..], &[5, 6][..]));
    assert!(even.is_in_order() && !even.is_even());
    assert!(Layout::even(6, 3).is_even());
}

#[test]
fn steps_say_what_they_do() {
    let how = |first| How::Combine { with: Chunks::input(2, 1), first };
    let into = Chunks::output(2, 3);
    let rounds = vec![
        vec![Step::Copy { from: Chunks::input(0, 1), into: Chunks::output(3, 1) }],
        vec![
            Step::Send { to: 1, from: into },
            Step::Recv { from: 0, into, how: how(Operand::Local) },
            Step::Recv { from: 0, into, how: how(Operand::Received) },
            Step::Recv { from: 0, into: Chunks::NONE, how: How::Overwrite },
        ],
    ];
    let program = Program::new(rounds, vec![]);
    let words: Vec<String> = program.steps().iter().map(Step::to_string).collect();
    insta::assert_snapshot!(words.join("\n"), @"
    copy In[0] to Out[3]
    send Out[2..5] to 1
    recv from 0: Out[2..5] = In[2] ∘ received
    recv from 0: Out[2..5] = received ∘ In[2]
    recv nothing from 0
    ");
    assert_eq!((program.len(), program.rounds().len()), (2, 2));
}
