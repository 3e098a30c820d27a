use super::super::super::traffic::tests::history;
use super::super::super::words::Sent;
use super::*;

fn lanes() -> Lanes {
    Lanes::of(&Timeline::of(&history()).unwrap())
}

fn sent(from: u64, to: u64) -> Sent {
    Sent { bytes: 1 << 20, span: Span { from, to } }
}

#[test]
fn every_rank_has_a_lane_below_the_other_with_all_its_bars_inside() {
    let lanes = lanes();
    assert_eq!(lanes.lanes.iter().map(|lane| lane.rank).collect::<Vec<_>>(), [0, 1]);
    let mut above = AXIS;
    for lane in &lanes.lanes {
        assert!(lane.top >= above);
        above = lane.top + lane.height;
        assert_eq!(lane.bars.iter().filter(|bar| bar.kind == Kind::Bucket).count(), 2);
        for bar in &lane.bars {
            assert!(bar.top >= lane.top && bar.top + ROW <= lane.top + lane.height, "{bar:?}");
            assert!(
                bar.left >= 0.0 && bar.width > 0.0 && bar.left + bar.width <= 1.0 + 1e-9,
                "{bar:?}"
            );
        }
    }
    assert!(above <= lanes.height);
}

#[test]
fn what_a_rank_computes_follows_on_each_other() {
    let lane = &lanes().lanes[0];
    let kinds: Vec<Kind> = lane.bars.iter().map(|bar| bar.kind).take(4).collect();
    assert_eq!(kinds, [Kind::Forward, Kind::Backward, Kind::Wait, Kind::Update]);
    for two in lane.bars[..4].windows(2) {
        assert!((two[0].left + two[0].width - two[1].left).abs() < 1e-6, "{two:?}");
    }
    let wait = &lane.bars[2];
    assert!((wait.width - 0.1).abs() < 1e-3, "from 80 to 90 of 100: {wait:?}");
}

#[test]
fn buckets_that_travel_at_the_same_time_are_in_different_rows() {
    let Timeline { mut lanes, .. } = Timeline::of(&history()).unwrap();
    lanes[0].buckets = vec![sent(0, 10), sent(5, 20), sent(10, 12), sent(11, 30), sent(20, 40)];
    assert_eq!(rows(&lanes[0]), [0, 1, 0, 2, 0]);
}

#[test]
fn what_takes_no_time_or_too_long_stays_visible_and_inside() {
    let mut timeline = Timeline::of(&history()).unwrap();
    let length = timeline.length;
    timeline.lanes[0].buckets = vec![sent(length, length), sent(5, u64::MAX)];
    for bar in Lanes::of(&timeline).lanes.iter().flat_map(|lane| &lane.bars) {
        assert!(bar.width > 0.0 && bar.left + bar.width <= 1.0 + 1e-9, "{bar:?}");
    }
}

#[test]
fn words_are_written_where_there_is_room() {
    assert_eq!(room("96 KiB", 0.5), Some("always"));
    assert_eq!(room("96 KiB", 0.1), Some("wide"));
    assert_eq!(room("96 KiB", 0.02), None);
}

#[test]
fn moments_are_round() {
    let words =
        |length| ticks(length).into_iter().map(|(word, _)| word).collect::<Vec<_>>().join(" ");
    assert_eq!(words(14_000_000), "0 5 ms 10 ms");
    assert_eq!(words(730_000), "0 200 µs 400 µs 600 µs");
    assert_eq!(words(2_400_000_000), "0 500 ms 1000 ms 1500 ms 2000 ms");
}
