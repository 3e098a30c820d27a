//! Recipes: scripts made of programs and reductions.
//!
//! | recipe | what it does |
//! |---|---|
//! | `Plan` | a program of `consort-plan`, as it is |
//! | `AllGather`, `AllToAll` | everyone exchanges with everyone, with a few at a time |
//! | `AllReduceSmall` | everyone gets all inputs, and combines them |
//! | `AllReduceLarge` | everyone gets its slice of all inputs, combines it, and sends the result to all |
//! | `ReduceAtRoot` | the root gets all inputs, and combines them |
//! | `ReduceLarge` | everyone gets its slice of all inputs, combines it, and sends the result to the root |
//! | `ReduceScatter` | everyone gets its part of all inputs, and combines it |
//! | `Alone` | combines the one input there is |
//!
//! What receives in place is right in place: nothing that is still to be sent is overwritten within a
//! segment, and segments have nothing in common.

use consort_plan::{Algorithm as _, Chunks, Collective, How, Layout, Step, algo};

use super::script::{Draft, Script};

/// What a script is made of. See the top of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recipe {
    Plan { algorithm: &'static str, op: Collective },
    AllGather,
    AllToAll { in_place: bool },
    AllReduceSmall,
    AllReduceLarge,
    ReduceAtRoot { root: u32 },
    ReduceLarge { root: u32 },
    ReduceScatter,
    Alone,
}

impl Recipe {
    /// One rank's script.
    pub(super) fn script(self, me: u32, layout: &Layout) -> Script {
        let seat = Seat { me, world: layout.world() };
        let mut draft = Draft::default();
        let input = |chunk| Chunks::input(chunk, 1);
        let output = |chunk| Chunks::output(chunk, 1);
        match self {
            Self::Plan { algorithm, op } => return plan(algorithm, op, me, layout),
            Self::AllGather => {
                draft.round(vec![Step::Copy { from: input(0), into: output(me) }]);
                seat.exchange(&mut draft, |_| input(0), output);
            }
            Self::AllToAll { in_place: false } => {
                draft.round(vec![Step::Copy { from: input(me), into: output(me) }]);
                seat.exchange(&mut draft, input, output);
            }
            Self::AllToAll { in_place: true } => {
                let others = draft.add_scratch(seat.others());
                seat.exchange(&mut draft, input, |from| seat.slot(others, from));
                let copy = |from| Step::Copy { from: seat.slot(others, from), into: output(from) };
                draft.round(seat.others().map(copy).collect());
            }
            Self::AllReduceSmall => return seat.all_reduce_small(),
            Self::AllReduceLarge => {
                seat.combine_slices(&mut draft, output(me));
                seat.exchange(&mut draft, |_| output(me), output);
            }
            Self::ReduceAtRoot { root } => return seat.reduce_at_root(root),
            Self::ReduceLarge { root } => seat.reduce_large(&mut draft, root),
            Self::ReduceScatter => seat.combine_slices(&mut draft, output(0)),
            Self::Alone => draft.reduce(vec![input(0)], output(0)),
        }
        draft.finish()
    }
}

fn plan(name: &str, op: Collective, me: u32, layout: &Layout) -> Script {
    let algorithm = algo::named(name, layout).expect("only names of algorithms are chosen");
    let mut draft = Draft::default();
    draft.program(&algorithm.program(op, layout.world(), me), None);
    // Where a range of chunks goes on at 0, Bruck's algorithm has two messages for it on both sides.
    let joins = algorithm.name() == algo::Bruck.name() && op == Collective::AllGather;
    if joins { draft.joined().finish() } else { draft.finish() }
}

/// Where a rank sits.
#[derive(Clone, Copy)]
struct Seat {
    me: u32,
    world: u32,
}

impl Seat {
    /// The others, in the order in which this rank hears from them.
    fn others(self) -> impl Iterator<Item = u32> {
        (1..self.world).map(move |distance| self.before(distance))
    }

    fn before(self, distance: u32) -> u32 {
        (self.me + self.world - distance) % self.world
    }

    fn after(self, distance: u32) -> u32 {
        (self.me + distance) % self.world
    }

    /// Another rank's chunk, of chunks of all [others](Self::others).
    fn slot(self, others: Chunks, rank: u32) -> Chunks {
        others.part((self.me + self.world - rank) % self.world - 1, 1)
    }

    /// Something to everyone, something from everyone. In every round the ranks are as far apart as
    /// those of any other rank, so that nobody is talked to by many at once.
    fn exchange(
        self,
        draft: &mut Draft,
        what: impl Fn(u32) -> Chunks,
        into: impl Fn(u32) -> Chunks,
    ) {
        let mut next = 1;
        while next < self.world {
            let end = self.world.min(next + AT_ONCE);
            let sends = (next..end).map(|distance| self.after(distance));
            let sends = sends.map(|to| Step::Send { to, from: what(to) });
            let receives = (next..end).map(|distance| self.before(distance));
            let how = How::Overwrite;
            let receives = receives.map(|from| Step::Recv { from, into: into(from), how });
            draft.round(sends.chain(receives).collect());
            next = end;
        }
    }

    /// Gets this rank's chunk of everyone's input and combines them.
    fn combine_slices(self, draft: &mut Draft, into: Chunks) {
        let others = draft.add_scratch(self.others().map(|_| self.me));
        self.exchange(draft, |to| Chunks::input(to, 1), |from| self.slot(others, from));
        draft.reduce(self.operands(others, Chunks::input(self.me, 1)), into);
    }

    fn all_reduce_small(self) -> Script {
        let mut draft = Draft::default();
        let all = draft.add_scratch((0..self.world).map(|_| 0));
        draft.program(&algo::Bruck.program(Collective::AllGather, self.world, self.me), Some(all));
        draft.reduce((0..self.world).map(|rank| all.part(rank, 1)).collect(), Chunks::output(0, 1));
        draft.joined().finish()
    }

    fn reduce_at_root(self, root: u32) -> Script {
        let mut draft = Draft::default();
        let own = Chunks::input(0, 1);
        if self.world > AT_ONCE {
            let op = Collective::Gather { root };
            let like = if self.me == root { 0..self.world } else { 0..0 };
            let all = draft.add_scratch(like);
            let program = algo::Binomial.program(op, self.world, self.me);
            draft.program(&program, Some(all));
            if self.me == root {
                let operands = (0..self.world).map(|rank| all.part(rank, 1)).collect();
                draft.reduce(operands, Chunks::output(0, 1));
            }
        } else if self.me == root {
            let others = draft.add_scratch(self.others());
            let how = How::Overwrite;
            let receive = |from| Step::Recv { from, into: self.slot(others, from), how };
            draft.round(self.others().map(receive).collect());
            draft.reduce(self.operands(others, own), Chunks::output(0, 1));
        } else {
            draft.round(vec![Step::Send { to: root, from: own }]);
        }
        draft.finish()
    }

    fn reduce_large(self, draft: &mut Draft, root: u32) {
        if self.me == root {
            self.combine_slices(draft, Chunks::output(self.me, 1));
            let how = How::Overwrite;
            let receive = |from| Step::Recv { from, into: Chunks::output(from, 1), how };
            draft.round(self.others().map(receive).collect());
        } else {
            let result = draft.add_scratch([self.me]);
            self.combine_slices(draft, result);
            draft.round(vec![Step::Send { to: root, from: result }]);
        }
    }

    /// A chunk of every rank, in the order of ranks.
    fn operands(self, others: Chunks, own: Chunks) -> Vec<Chunks> {
        let of = |rank| if rank == self.me { own } else { self.slot(others, rank) };
        (0..self.world).map(of).collect()
    }
}

/// With how many ranks at a time a rank exchanges something.
const AT_ONCE: u32 = 8;
