use consort::Dtype;
use proptest::prelude::*;

use super::*;

const MIB: usize = 1 << 20;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Parameters of so many MiB each.
fn of_mib(sizes: &[usize]) -> Vec<Parameter> {
    let parameter = |(at, mib): (usize, &usize)| {
        Parameter::new(format!("p{at}"), Dtype::F32, &[mib * MIB / size_of::<f32>()])
    };
    sizes.iter().enumerate().map(parameter).collect()
}

/// Ready one after the other, at these milliseconds.
fn ready_at(times: &[u64]) -> Vec<(usize, Duration)> {
    times.iter().map(|&at| ms(at)).enumerate().collect()
}

/// So many milliseconds for each call, and for each MiB.
fn cost(call: u64, mib: u64) -> Cost {
    Cost::new([(MIB, ms(call + mib)), (2 * MIB, ms(call + 2 * mib))]).unwrap()
}

fn advise_all(parameters: &[Parameter], ready: &[u64], cost: &Cost, in_use: &Caps) -> Advice {
    let ready = ready_at(ready);
    let end = ready.last().map_or(Duration::ZERO, |(_, at)| *at);
    advise(Seen { parameters, ready: &ready, end }, cost, in_use, |_| false)
}

/// How many bytes each bucket has, by these sizes.
fn buckets(parameters: &[Parameter], caps: &Caps) -> Vec<usize> {
    let buckets = assign(parameters, 0..parameters.len(), caps, |_| false);
    let mib = |bucket: &Vec<usize>| bucket.iter().map(|&at| parameters[at].bytes() / MIB).sum();
    buckets.iter().map(mib).collect()
}

#[test]
fn a_slow_wire_has_each_gradient_go_when_it_is_there() {
    let parameters = of_mib(&[1; 8]);
    let ready: Vec<u64> = (1..=8).map(|at| at * 1000).collect();
    let advice = advise_all(&parameters, &ready, &cost(0, 900), &Caps::default());
    // The last goes alone, after 8 s, when all others are back; if two went together the wire would not be
    // free then. By default the last seven go together.
    assert_eq!(buckets(&parameters, &advice.caps), [1; 8]);
    assert_eq!((advice.exposed, advice.exposed_now), (ms(900), ms(7 * 900)));
    // A faster one has time for the first four together, and no more.
    let advice = advise_all(&parameters, &ready, &cost(0, 400), &Caps::default());
    assert_eq!(buckets(&parameters, &advice.caps), [4, 1, 1, 1, 1]);
    assert_eq!((advice.exposed, advice.exposed_now), (ms(400), ms(7 * 400)));
}

#[test]
fn what_is_late_goes_alone_and_what_was_early_together() {
    let parameters = of_mib(&[1, 1, 2, 1]);
    let advice = advise_all(&parameters, &[10, 20, 30, 1000], &cost(100, 50), &Caps::default());
    // In one: 100 + 5 * 50; by default the last has 4. The last alone: 100 + 50, however the others go:
    // they are back before, and in one are fewest.
    assert_eq!(buckets(&parameters, &advice.caps), [4, 1]);
    assert_eq!((advice.exposed, advice.exposed_now), (ms(150), ms(300)));
}

#[test]
fn calls_that_take_long_by_themselves_are_few() {
    let parameters = of_mib(&[1; 8]);
    let ready: Vec<u64> = (1..=8).map(|at| at * 100).collect();
    let one_by_one = Caps::of(MIB).unwrap();
    let advice = advise_all(&parameters, &ready, &cost(1000, 1), &one_by_one);
    assert_eq!(buckets(&parameters, &advice.caps), [8]);
    // The first would go at 100 and each be back 1001 later: 8108, of which backward takes 800.
    assert_eq!((advice.exposed, advice.exposed_now), (ms(1008), ms(7308)));
}

#[test]
fn a_wire_that_is_always_behind_begins_early() {
    // All gradients are there soon; what counts is when the wire begins, and how often it begins anew.
    let parameters = of_mib(&[1, 16, 16]);
    let advice = advise_all(&parameters, &[10, 50, 60], &cost(5, 10), &Caps::of(64 * MIB).unwrap());
    // In one: 60 + 5 + 330. [1, 32]: 25, then 60 + 5 + 320. [1, 16, 16]: 25, 50 + 5 + 160, + 5 + 160.
    // [17, 16]: 50 + 5 + 170 + 5 + 160.
    assert_eq!(buckets(&parameters, &advice.caps), [1, 16, 16]);
    assert_eq!((advice.exposed, advice.exposed_now), (ms(380 - 60), ms(395 - 60)));
}

#[test]
fn what_is_back_before_backward_ends_costs_nothing_and_goes_in_one() {
    let parameters = of_mib(&[1, 1, 1]);
    let (ready, end) = (ready_at(&[10, 20, 30]), ms(1000));
    let seen = Seen { parameters: &parameters, ready: &ready, end };
    let advice = advise(seen, &cost(100, 50), &Caps::of(MIB).unwrap(), |_| false);
    assert_eq!(buckets(&parameters, &advice.caps), [3]);
    assert_eq!((advice.exposed, advice.exposed_now), (Duration::ZERO, Duration::ZERO));
}

#[test]
fn sizes_in_use_stay_if_nothing_is_better() {
    let parameters = of_mib(&[3, 5]);
    for in_use in [[4 * MIB, 7], [3, 1 << 40]] {
        let in_use = Caps::list(in_use).unwrap();
        let advice = advise_all(&parameters, &[100, 1000], &cost(1, 1), &in_use);
        let expected = if buckets(&parameters, &in_use).len() == 2 { ms(6) } else { ms(9) };
        assert_eq!(advice.exposed_now, expected);
        assert_eq!(advice.caps == in_use, expected == ms(6), "{advice:?}");
    }
}

#[test]
fn dtypes_and_those_that_go_alone_have_buckets_of_their_own() {
    let of = |name: &str, dtype: Dtype| Parameter::new(name, dtype, &[MIB / dtype.size()]);
    let parameters = [of("table", Dtype::F32), of("a", Dtype::F32), of("b", Dtype::Bf16)];
    let ready = ready_at(&[10, 20, 30]);
    let seen = Seen { parameters: &parameters, ready: &ready, end: ms(30) };
    let advice = advise(seen, &cost(10, 0), &Caps::default(), |it| it.name() == "table");
    // There are three, whatever the sizes: they begin at 10, 20 and 30.
    assert_eq!((&advice.caps, advice.exposed), (&Caps::default(), ms(10)));
}

#[test]
fn a_model_without_parameters_has_nothing_to_wait_for() {
    let advice = advise_all(&[], &[], &cost(1, 1), &Caps::default());
    assert_eq!((&advice.caps, advice.exposed), (&Caps::default(), Duration::ZERO));
    let nothing = [Parameter::new("nothing", Dtype::F32, &[0])];
    let advice = advise_all(&nothing, &[7], &cost(3, 1), &Caps::default());
    assert_eq!((&advice.caps, advice.exposed), (&Caps::default(), ms(3)));
}

#[test]
fn costs_lie_on_lines_through_what_was_measured() {
    let us = Duration::from_micros;
    let cost =
        Cost::new([(3000, us(50)), (1000, us(30)), (5000, us(150)), (1000, us(45))]).unwrap();
    let points = [0, 500, 1000, 2000, 3000, 4000, 5000, 7000].map(|bytes| cost.of(bytes));
    assert_eq!(points, [20, 25, 30, 40, 50, 100, 150, 250].map(|us| us * 1000));
    // A call is not faster than nothing, and one point is for bytes alone.
    let steep = Cost::new([(1000, us(10)), (2000, us(100))]).unwrap();
    assert_eq!([0, 100, 1000].map(|bytes| steep.of(bytes)), [0, 1000, 10_000]);
    let one = Cost::new([(1000, us(10))]).unwrap();
    assert_eq!([0, 500, 2000].map(|bytes| one.of(bytes)), [0, 5000, 20_000]);
    assert_eq!(Cost::new([]), None);
    assert_eq!(Cost::new([(0, us(5))]), None);
}

#[test]
fn a_small_call_that_took_longer_than_a_large_one_was_disturbed() {
    let us = Duration::from_micros;
    let disturbed = [(1000, us(90)), (2000, us(40)), (3000, us(70)), (4000, us(60))];
    let cost = Cost::new(disturbed).unwrap();
    assert_eq!(
        [0, 1000, 2000, 3000, 4000, 5000].map(|at| cost.of(at) / 1000),
        [40, 40, 40, 60, 60, 60]
    );
}

#[test]
fn figures_that_cannot_be_are_no_trouble() {
    let cost = Cost::new([(1, Duration::ZERO), (2, Duration::MAX)]).unwrap();
    assert_eq!((cost.of(1), cost.of(usize::MAX)), (0, u64::MAX));
    let parameters = of_mib(&[1, 2]);
    let advice = advise_all(&parameters, &[1, 2], &cost, &Caps::default());
    assert_eq!(buckets(&parameters, &advice.caps), [3]);
}

/// The same as one would do it by hand: a clock that each bucket moves on.
fn exposed_by_hand(seen: Seen<'_>, cost: &Cost, caps: &Caps) -> Duration {
    let order = seen.ready.iter().map(|&(index, _)| index);
    let at = |index: &usize| seen.ready.iter().find(|(it, _)| it == index).unwrap().1;
    let mut now = Duration::ZERO;
    for bucket in assign(seen.parameters, order, caps, |_| false) {
        if let Some(last) = bucket.iter().map(at).max().filter(|last| *last > now) {
            now = last;
        }
        let bytes = bucket.iter().map(|&index| seen.parameters[index].bytes()).sum();
        now += Duration::from_nanos(cost.of(bytes));
    }
    now.saturating_sub(seen.end)
}

prop_compose! {
    fn measured()(
        points in prop::collection::vec((1..1_usize << 27, 0..1_u64 << 32), 1..8),
    ) -> Cost {
        Cost::new(points.into_iter().map(|(bytes, time)| (bytes, Duration::from_nanos(time)))).unwrap()
    }
}

proptest! {
    #[test]
    fn more_bytes_never_take_less_time(cost in measured(), sizes in prop::array::uniform2(0..1_usize << 30)) {
        let [less, more] = [sizes[0].min(sizes[1]), sizes[0].max(sizes[1])];
        prop_assert!(cost.of(less) <= cost.of(more));
    }

    #[test]
    fn advice_is_never_worse_than_what_is_in_use_and_what_is_tried_and_says_what_comes_of_it(
        kinds in prop::collection::vec((0..2_usize, 1..3_000_000_usize, 0..5_000_000_u64), 0..24),
        in_use in prop::collection::vec(1..32_000_000_usize, 1..4),
        rest in 0..10_000_000_u64,
        cost in measured(),
    ) {
        let dtypes = [Dtype::F32, Dtype::Bf16];
        let parameter = |(at, &(kind, len, _)): (usize, &(usize, usize, u64))| {
            Parameter::new(format!("p{at}"), dtypes[kind], &[len])
        };
        let parameters: Vec<Parameter> = kinds.iter().enumerate().map(parameter).collect();
        let mut time = 0;
        let mut ready: Vec<(usize, Duration)> = Vec::new();
        for (index, &(_, _, gap)) in kinds.iter().enumerate().rev() {
            time += gap;
            ready.push((index, Duration::from_nanos(time)));
        }
        let end = Duration::from_nanos(time + rest);
        let seen = Seen { parameters: &parameters, ready: &ready, end };
        let in_use = Caps::list(in_use).unwrap();
        let advice = advise(seen, &cost, &in_use, |_| false);
        prop_assert_eq!(&advice, &advise(seen, &cost, &in_use, |_| false));
        prop_assert!(advice.exposed <= advice.exposed_now);
        prop_assert_eq!(advice.exposed, exposed_by_hand(seen, &cost, &advice.caps));
        prop_assert_eq!(advice.exposed_now, exposed_by_hand(seen, &cost, &in_use));
        let count = |caps: &Caps| {
            assign(&parameters, ready.iter().map(|it| it.0), caps, |_| false).len()
        };
        for first in (16..=26).map(|power| 1 << power) {
            for general in (16..=26).map(|power| 1 << power).chain([usize::MAX]) {
                let caps = Caps::list([first, general]).unwrap();
                let other = exposed_by_hand(seen, &cost, &caps);
                prop_assert!(advice.exposed <= other);
                prop_assert!(advice.exposed < other || count(&advice.caps) <= count(&caps));
            }
        }
        let one = Caps::of(usize::MAX).unwrap();
        prop_assert!(advice.exposed <= exposed_by_hand(seen, &cost, &one));
    }
}
