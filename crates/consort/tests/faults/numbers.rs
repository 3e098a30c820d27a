//! What ranks compute: numbers of which each says whose it is and where it belongs.

use consort::{Failed, Group, ReduceOp, Result, Work};

/// A way to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// On the caller's thread, which waits.
    Blocking,
    /// In the background, with buffers that the calls own.
    Asynchronous,
    /// In the background, with buffers that are lent.
    Scoped,
}

impl Style {
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "blocking" => Self::Blocking,
            "asynchronous" => Self::Asynchronous,
            "scoped" => Self::Scoped,
            _ => panic!("there is no way to call that is named {name}"),
        }
    }
}

/// How many calls a round has.
pub(crate) const CALLS: u64 = 4;

/// Makes some calls, looks at every number that comes of them, and adds what has to be the same on all
/// ranks to the digest.
pub(crate) fn round(
    group: &Group,
    style: Style,
    round: u64,
    digest: &mut blake3::Hasher,
) -> Result<()> {
    let given = Numbers::of(group, round);
    let got = match style {
        Style::Blocking => given.block(group),
        Style::Asynchronous => given.begin(group),
        Style::Scoped => given.lend(group),
    }?;
    got.check(group, round);
    got.thirds.iter().for_each(|sum| _ = digest.update(&sum.to_bits().to_le_bytes()));
    Ok(())
}

/// The buffers of a round.
struct Numbers {
    root: u32,
    /// To be added up, exactly.
    sums: Vec<u64>,
    /// The root's are for all.
    sent: Vec<u64>,
    /// This rank's, and room for everyone's.
    mine: Vec<u64>,
    everyones: Vec<u64>,
    /// To be added up with rounding: whoever adds them in another order gets other bits.
    thirds: Vec<f32>,
}

impl Numbers {
    fn of(group: &Group, round: u64) -> Self {
        let (me, world) = (group.rank().get(), group.world());
        let len = LENGTHS[round as usize % LENGTHS.len()];
        let root = (round % world as u64) as u32;
        Self {
            root,
            sums: codes(me, round, len),
            sent: codes(if me == root { me } else { NOBODY }, round, len),
            mine: codes(me, round + 1, len),
            everyones: vec![0; len * world],
            thirds: (0..len).map(|at| (me + 1) as f32 / (3 + at % 7) as f32).collect(),
        }
    }

    fn block(mut self, group: &Group) -> Result<Self> {
        group.all_reduce(&mut self.sums, ReduceOp::Sum)?;
        group.broadcast(&mut self.sent, self.root)?;
        group.all_gather(&self.mine, &mut self.everyones)?;
        group.all_reduce(&mut self.thirds, ReduceOp::Sum)?;
        Ok(self)
    }

    fn lend(mut self, group: &Group) -> Result<Self> {
        let Self { root, sums, sent, mine, everyones, thirds } = &mut self;
        group.scope(|scope| {
            scope.all_reduce(sums, ReduceOp::Sum)?;
            scope.broadcast(sent, *root)?;
            scope.all_gather(mine, everyones)?;
            scope.all_reduce(thirds, ReduceOp::Sum)
        })?;
        Ok(self)
    }

    /// Whatever happens, every buffer comes back.
    fn begin(self, group: &Group) -> Result<Self> {
        let (len, root) = (self.sums.len(), self.root);
        let sums = group.all_reduce_async(self.sums, ReduceOp::Sum)?;
        let sent = group.broadcast_async(self.sent, root)?;
        let everyones = group.all_gather_async(self.mine, self.everyones)?;
        let thirds = group.all_reduce_async(self.thirds, ReduceOp::Sum)?;
        let sums = waited(sums, |sums| assert_eq!(sums.len(), len));
        let sent = waited(sent, |sent| assert_eq!(sent.len(), len));
        let everyones = waited(everyones, |(mine, everyones)| {
            assert_eq!((mine.len(), everyones.len()), (len, len * group.world()));
        });
        let thirds = waited(thirds, |thirds| assert_eq!(thirds.len(), len));
        let (sums, sent) = (sums?, sent?);
        let ((mine, everyones), thirds) = (everyones?, thirds?);
        Ok(Self { root, sums, sent, mine, everyones, thirds })
    }

    fn check(&self, group: &Group, round: u64) {
        let (world, len) = (group.world() as u32, self.sums.len());
        let of = |rank: u32| codes(rank, round, len);
        let mut sums = vec![0; len];
        for rank in 0..world {
            sums.iter_mut().zip(of(rank)).for_each(|(sum, number)| *sum += number);
        }
        same("sums", &self.sums, &sums);
        same("what the root sent", &self.sent, &of(self.root));
        let everyones = (0..world).flat_map(|rank| codes(rank, round + 1, len));
        same("what was gathered", &self.everyones, &everyones.collect::<Vec<_>>());
        let exact = f64::from(world * (world + 1)) / 2.0;
        for (at, &sum) in self.thirds.iter().enumerate() {
            let exact = exact / (3 + at % 7) as f64;
            let is_near = (f64::from(sum) - exact).abs() <= exact * 1e-5;
            assert!(is_near, "round {round}: at {at} {sum} is not about {exact}");
        }
    }
}

fn waited<B>(work: Work<B>, comes_back: impl FnOnce(&B)) -> Result<B> {
    work.wait().map_err(|Failed { error, buffer, .. }| {
        comes_back(&buffer);
        error
    })
}

fn same(what: &str, got: &[u64], expected: &[u64]) {
    let wrong = got.iter().zip(expected).position(|(got, expected)| got != expected);
    assert!(wrong.is_none(), "{what}: wrong from {wrong:?} on, of {}", expected.len());
    assert_eq!(got.len(), expected.len(), "{what}");
}

/// Whose they are, in which round, where they belong; sums of some of them do not overflow.
fn codes(rank: u32, round: u64, len: usize) -> Vec<u64> {
    let whose = (u64::from(rank) + 1) << 40 | (round % 256) << 28;
    (0..len as u64).map(|at| whose | at).collect()
}

/// Small, of several parts, and so large that hosts have to share it out.
const LENGTHS: [usize; 3] = [5, 3_000, 40_000];
/// No group is that large.
const NOBODY: u32 = 9_999;
