//! The harm that is done, and what everyone is busy with when it is.

use std::time::Duration;

use crate::order::{Call, Dtype, Op, Order};

/// How many ranks there are.
pub(crate) const WORLD: u32 = 4;

/// Who comes to harm, or does it. Not rank 0, which holds the store.
pub(crate) const ODD: u32 = 2;

/// One sort of failure.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// What it is called on the command line.
    pub(crate) name: &'static str,
    /// What happens.
    pub(crate) title: &'static str,
    /// What each rank is told at the beginning.
    pub(crate) orders: [Vec<Order>; WORLD as usize],
    /// What happens a while later.
    pub(crate) fault: Fault,
    /// How long calls may wait, for those libraries to which that can be said.
    pub(crate) timeout: Duration,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fault {
    /// The odd rank is killed.
    Kill,
    /// The odd rank is stopped.
    Stop,
    /// The odd rank is told to do this, while the others do what it should do.
    Order(Order),
    /// A rank ends the group from another thread, as it was told.
    Abort,
    /// The cable of the second of two hosts is pulled, on which half of the ranks are.
    Cut,
}

impl Scenario {
    /// All there are.
    pub(crate) fn all() -> Vec<Self> {
        let busy = || Order::Loop(SUM);
        let odd_call = |call| Fault::Order(Order::Call(call));
        let (dtype, count, op, value) = (Dtype::F32, COUNT, Op::Sum, 1);
        vec![
            Self::new("kill", "a rank is killed, all in a loop of all_reduce", Fault::Kill)
                .all_do(&[busy()]),
            Self::new(
                "barrier",
                "a rank is killed before a barrier, others wait in it",
                Fault::Kill,
            )
            .others_do(&[Order::Call(Call::Barrier)]),
            Self::new("exit", "a rank exits with code 1 instead of an all_reduce", EXIT)
                .others_do(&[Order::Call(SUM)]),
            Self::new("stop", "a rank is stopped (SIGSTOP), timeout 3 s", Fault::Stop)
                .all_do(&[busy()])
                .within(STOP_TIMEOUT),
            Self::new(
                "count",
                "a rank gives half as many elements",
                odd_call(Call::AllReduce { dtype, count: COUNT / 2, op, value }),
            )
            .others_do(&[Order::Call(SUM)]),
            Self::new(
                "dtype",
                "a rank gives i32, the others f32",
                odd_call(Call::AllReduce { dtype: Dtype::I32, count, op, value }),
            )
            .others_do(&[Order::Call(SUM)]),
            Self::new(
                "op",
                "a rank asks for the maximum, the others for the sum",
                odd_call(Call::AllReduce { dtype, count, op: Op::Max, value }),
            )
            .others_do(&[Order::Call(SUM)]),
            Self::new(
                "operation",
                "a rank calls broadcast, the others all_reduce",
                odd_call(Call::Broadcast { dtype, count, value: 7 }),
            )
            .others_do(&[Order::Call(SUM)]),
            Self::new("skip", "a rank skips an all_reduce, a barrier is next", SKIP)
                .others_do(&[Order::Call(SUM), Order::Call(Call::Barrier)]),
            Self::new("skip-alike", "a rank skips the first of two all_reduce", odd_call(NEXT_SUM))
                .others_do(&[Order::Call(SUM), Order::Call(NEXT_SUM)]),
            Self::new("abort", "a rank's other thread ends a call that hangs", Fault::Abort)
                .others_do(&[Order::Call(SUM)])
                .first_does(&[Order::Abort(SETTLE), Order::Call(SUM)]),
            Self::new("cut", "the link between two hosts is cut, all in a loop", Fault::Cut)
                .all_do(&[busy()])
                .within(CUT_TIMEOUT),
            Self::new("pending", "a rank is killed, the others have 8 calls pending", Fault::Kill)
                .others_do(&[Order::Pending { count: 8, call: SUM }]),
        ]
    }

    /// One of them.
    pub(crate) fn called(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|scenario| scenario.name == name)
    }

    /// Whose fate is told: those who have something to do, and are there afterwards.
    pub(crate) fn watched(&self) -> Vec<u32> {
        let is_busy = |rank: u32| match &self.fault {
            Fault::Kill | Fault::Stop | Fault::Order(Order::Exit(_)) => rank != ODD,
            Fault::Order(_) => true,
            Fault::Abort | Fault::Cut => !self.orders[rank as usize].is_empty(),
        };
        (0..WORLD).filter(|&rank| is_busy(rank)).collect()
    }

    /// Who could go on together afterwards.
    pub(crate) fn survivors(&self) -> Vec<u32> {
        let is_left = |rank: u32| match &self.fault {
            Fault::Kill | Fault::Stop | Fault::Order(Order::Exit(_)) => rank != ODD,
            Fault::Cut => host_of(rank) == 0,
            Fault::Order(_) | Fault::Abort => true,
        };
        (0..WORLD).filter(|&rank| is_left(rank)).collect()
    }

    /// Whom a good error names: whoever did it, or one of those that it happened to.
    pub(crate) fn culprits(&self, by: u32) -> Vec<u32> {
        match self.fault {
            Fault::Abort => vec![0],
            Fault::Cut => (0..WORLD).filter(|&rank| host_of(rank) != host_of(by)).collect(),
            _ => vec![ODD],
        }
    }

    fn new(name: &'static str, title: &'static str, fault: Fault) -> Self {
        Self { name, title, orders: Default::default(), fault, timeout: TIMEOUT }
    }

    fn all_do(mut self, orders: &[Order]) -> Self {
        self.orders.fill(orders.to_vec());
        self
    }

    fn others_do(mut self, orders: &[Order]) -> Self {
        self = self.all_do(orders);
        self.orders[ODD as usize].clear();
        self
    }

    fn first_does(mut self, orders: &[Order]) -> Self {
        self.orders[0] = orders.to_vec();
        self
    }

    fn within(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// On which of two hosts a rank is, where there are two.
pub(crate) fn host_of(rank: u32) -> usize {
    usize::from(rank >= WORLD / 2)
}

const EXIT: Fault = Fault::Order(Order::Exit(1));
const SKIP: Fault = Fault::Order(Order::Call(Call::Barrier));

/// 4 KiB.
const COUNT: usize = 1024;
pub(crate) const SUM: Call =
    Call::AllReduce { dtype: Dtype::F32, count: COUNT, op: Op::Sum, value: 1 };
const NEXT_SUM: Call = Call::AllReduce { dtype: Dtype::F32, count: COUNT, op: Op::Sum, value: 10 };

/// Between the orders and the fault: everyone is where it was sent.
pub(crate) const SETTLE: Duration = Duration::from_millis(400);

const TIMEOUT: Duration = Duration::from_secs(5);
const STOP_TIMEOUT: Duration = Duration::from_secs(3);
/// Longer than consort takes to find out that a host is silent.
const CUT_TIMEOUT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_has_a_name_of_its_own_and_somebody_who_watches() {
        let all = Scenario::all();
        for scenario in &all {
            assert_eq!(all.iter().filter(|it| it.name == scenario.name).count(), 1);
            assert!(scenario.watched().len() >= 3, "{}", scenario.name);
        }
    }

    #[test]
    fn nobody_is_expected_of_whom_nothing_can_be_heard() {
        for name in ["kill", "barrier", "exit", "stop", "pending"] {
            let scenario = Scenario::called(name).unwrap();
            assert_eq!(scenario.watched(), [0, 1, 3]);
            assert_eq!(scenario.survivors(), [0, 1, 3]);
        }
        let cut = Scenario::called("cut").unwrap();
        assert_eq!((cut.watched(), cut.survivors()), (vec![0, 1, 2, 3], vec![0, 1]));
        assert_eq!((cut.culprits(0), cut.culprits(3)), (vec![2, 3], vec![0, 1]));
    }
}
