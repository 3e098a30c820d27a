//! Recipes: scripts made of programs and reductions.
//!
//! | recipe | what it does |
//! |---|---|
//! | `Plan` | a program of `consort-plan`, as it is |
//! | `AllGather`, `AllToAll` | everyone exchanges with everyone, with a few at a time |
//! | `AllReduceSmall` | everyone gets all inputs, and combines them |
//! | `AllReduceLarge` | everyone gets its slice of all inputs, combines it, and sends the result to all |
//! | `AllReduceAtOne`, `ReduceScatterAtOne`, `AllToAllAtOne` | rank 0 gets all inputs, and sends everyone its result |
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
    AllReduceAtOne,
    ReduceScatterAtOne,
    AllToAllAtOne,
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
            Self::AllReduceAtOne => return seat.all_reduce_at_one(),
            Self::ReduceScatterAtOne => return seat.reduce_scatter_at_one(),
            Self::AllToAllAtOne => return seat.all_to_all_at_one(),
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

    fn all_reduce_at_one(self) -> Script {
        let mut draft = Draft::default();
        let (own, result) = (Chunks::input(0, 1), Chunks::output(0, 1));
        if self.me == 0 {
            let others = draft.add_scratch(self.others().map(|_| 0));
            self.collect(&mut draft, |from| self.slot(others, from));
            draft.reduce(self.operands(others, own), result);
            let send = |to| Step::Send { to, from: result };
            draft.round(self.others().map(send).collect());
        } else {
            draft.round(vec![Step::Send { to: 0, from: own }]);
            draft.round(vec![Step::Recv { from: 0, into: result, how: How::Overwrite }]);
        }
        draft.finish()
    }

    fn reduce_scatter_at_one(self) -> Script {
        let mut draft = Draft::default();
        if self.me == 0 {
            let all = self.collect_all(&mut draft);
            let results = draft.add_scratch(1..self.world);
            let result = |to| if to == 0 { Chunks::output(0, 1) } else { results.part(to - 1, 1) };
            for to in 0..self.world {
                let operands = (0..self.world).map(|from| self.part(all, from, to)).collect();
                draft.reduce(operands, result(to));
            }
            let send = |to| Step::Send { to, from: result(to) };
            draft.round(self.others().map(send).collect());
        } else {
            self.have_it_done(&mut draft, Chunks::output(0, 1));
        }
        draft.finish()
    }

    fn all_to_all_at_one(self) -> Script {
        let mut draft = Draft::default();
        if self.me == 0 {
            let all = self.collect_all(&mut draft);
            let ranks = 0..self.world;
            let part = |(to, from)| Step::Send { to, from: self.part(all, from, to) };
            let parts = self.others().flat_map(|to| ranks.clone().map(move |from| (to, from)));
            draft.round(parts.map(part).collect());
            let copy =
                |from| Step::Copy { from: self.part(all, from, 0), into: Chunks::output(from, 1) };
            draft.round(ranks.map(copy).collect());
        } else {
            self.have_it_done(&mut draft, Chunks::output(0, self.world));
        }
        draft.joined().finish()
    }

    /// Rank 0 gets something of everyone.
    fn collect(self, draft: &mut Draft, into: impl Fn(u32) -> Chunks) {
        let receive = |from| Step::Recv { from, into: into(from), how: How::Overwrite };
        draft.round(self.others().map(receive).collect());
    }

    /// Rank 0 gets the whole inputs of all others.
    fn collect_all(self, draft: &mut Draft) -> Chunks {
        let all = draft.add_scratch(self.others().flat_map(|_| 0..self.world));
        let input = |from: u32| all.part((self.world - 1 - from) * self.world, self.world);
        self.collect(draft, input);
        all
    }

    /// What a rank has for another, at rank 0, which [has](Self::collect_all) all of the others'.
    fn part(self, all: Chunks, from: u32, to: u32) -> Chunks {
        match from {
            0 => Chunks::input(to, 1),
            _ => all.part((self.world - 1 - from) * self.world + to, 1),
        }
    }

    /// Another rank gives rank 0 its whole input, and gets its result.
    fn have_it_done(self, draft: &mut Draft, result: Chunks) {
        draft.round(vec![Step::Send { to: 0, from: Chunks::input(0, self.world) }]);
        draft.round(vec![Step::Recv { from: 0, into: result, how: How::Overwrite }]);
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
