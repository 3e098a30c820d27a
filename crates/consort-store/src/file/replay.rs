//! From records to a table. Pure: it is fed bytes and never asks where they come from.

use super::record::{self, Damage, Step, Stored};
use crate::request::{Limits, Reply};
use crate::table::{Outcome, Table};

/// A table, and how far in the log it has come.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) table: Table,
    /// The end of the last record taken in.
    pub(crate) position: u64,
    /// Where this replay began.
    start: u64,
    /// Whether parts belong to this table: it began with the snapshot they are from. A table that
    /// was there before knows all that a snapshot says.
    restoring: bool,
    /// Where the snapshot begins whose end has not been seen.
    begun: Option<u64>,
    /// Where the last whole snapshot begins, if that is behind `start`.
    snapshot: Option<u64>,
}

/// How far one feeding went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fed {
    /// To the end of the log.
    Whole,
    /// Feed so many bytes from the new position on.
    Needs(usize),
    /// To where a dead writer stopped.
    Torn,
}

impl Replay {
    pub(crate) fn from(start: u64) -> Self {
        Self {
            table: Table::new(Limits::STANDARD),
            position: start,
            start,
            restoring: true,
            begun: None,
            snapshot: None,
        }
    }

    /// Takes in the records that `bytes` hold, from the position on; `rest` bytes are there to
    /// the end of the log. On damage the position is that of the damage.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut rest: u64) -> Result<Fed, Damage> {
        while rest > 0 {
            match record::parse(bytes, rest)? {
                Step::Whole { payload, size } => {
                    self.take_in(record::decode(payload)?)?;
                    self.position += size as u64;
                    bytes = &bytes[size..];
                    rest -= size as u64;
                }
                Step::More(wanted) => return Ok(Fed::Needs(wanted)),
                Step::Torn => return Ok(Fed::Torn),
            }
        }
        Ok(Fed::Whole)
    }

    /// A place from which a new replay could start and come to the same table.
    pub(crate) fn later_start(&self) -> Option<u64> {
        self.snapshot
    }

    /// The log says now that it starts there.
    pub(crate) fn started_at(&mut self, start: u64) {
        self.start = start;
        self.snapshot = self.snapshot.filter(|&snapshot| snapshot > start);
    }

    /// A whole snapshot, begun there, was written up to the position.
    pub(crate) fn ends_with_snapshot(&mut self, begin: u64) {
        self.snapshot = Some(begin);
    }

    /// How long the log is that a newcomer has to read.
    pub(crate) fn length(&self) -> u64 {
        self.position - self.start
    }

    fn take_in(&mut self, stored: Stored<'_>) -> Result<(), Damage> {
        match stored {
            Stored::Change(request) => {
                (self.restoring, self.begun) = (false, None);
                match self.table.apply(&request) {
                    Outcome::Settled(Reply::Refused(_)) | Outcome::Blocked(_) => {
                        return Err(Damage("a record does not fit those before it"));
                    }
                    Outcome::Settled(_) => {}
                }
            }
            Stored::Begin => self.begun = Some(self.position),
            Stored::Part(part) if self.restoring => self
                .table
                .restore(&part)
                .map_err(|_| Damage("a snapshot's part does not fit those before it"))?,
            Stored::Part(_) => {}
            Stored::End => {
                self.restoring = false;
                self.snapshot = self.begun.take().filter(|&begun| begun > self.start);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::request::Request;
    use proptest::prelude::*;

    /// What a table holds, in a form that can be compared.
    pub(crate) fn contents(table: &Table) -> Vec<String> {
        let mut parts: Vec<String> = table.parts().map(|part| format!("{part:?}")).collect();
        parts.sort();
        parts
    }

    pub(crate) const STORY: [Request<'static>; 9] = [
        Request::Set { key: "a", value: b"one" },
        Request::Add { key: "n", delta: 41 },
        Request::Push { key: "q", value: b"first" },
        Request::Arrive { key: "b", rank: 1, world: 2 },
        Request::Push { key: "q", value: b"second" },
        Request::Pop { key: "q" },
        Request::Append { key: "a", value: b" and two" },
        Request::Arrive { key: "b", rank: 0, world: 2 },
        Request::Delete { key: "n" },
    ];

    /// The story as records, what the table holds after each, and where each ends.
    fn told() -> (Vec<u8>, Vec<(usize, Vec<String>)>) {
        let mut table = Table::new(Limits::STANDARD);
        let (mut log, mut states) = (Vec::new(), vec![(0, Vec::new())]);
        for request in STORY {
            assert!(matches!(table.apply(&request), Outcome::Settled(_)));
            record::encode(&Stored::Change(request), &mut log);
            states.push((log.len(), contents(&table)));
        }
        (log, states)
    }

    fn snapshot(table: &Table, mut log: Vec<u8>) -> Vec<u8> {
        record::encode(&Stored::Begin, &mut log);
        for part in table.parts() {
            record::encode(&Stored::Part(part), &mut log);
        }
        record::encode(&Stored::End, &mut log);
        log
    }

    #[test]
    fn a_log_cut_off_at_any_byte_gives_what_its_whole_records_say() {
        let (log, states) = told();
        for cut in 0..=log.len() {
            let mut replay = Replay::from(0);
            let fed = replay.feed(&log[..cut], cut as u64).unwrap();
            let (end, expected) = states.iter().rfind(|(end, _)| *end <= cut).unwrap();
            assert_eq!(fed, if *end == cut { Fed::Whole } else { Fed::Torn });
            assert_eq!(replay.position, *end as u64);
            assert_eq!(&contents(&replay.table), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_log_fed_in_pieces_of_any_size_says_the_same() {
        let (log, states) = told();
        for piece in 1..log.len() {
            let (mut replay, mut size) = (Replay::from(0), piece);
            loop {
                let rest = &log[replay.position as usize..];
                match replay.feed(&rest[..size.min(rest.len())], rest.len() as u64).unwrap() {
                    Fed::Needs(wanted) => size = wanted.max(piece),
                    Fed::Whole => break,
                    Fed::Torn => panic!("torn"),
                }
            }
            assert_eq!(contents(&replay.table), states.last().unwrap().1);
        }
    }

    #[test]
    fn a_snapshot_is_skipped_by_those_who_know_and_read_by_those_who_start_there() {
        let (log, states) = told();
        let mut knows = Replay::from(0);
        assert_eq!(knows.feed(&log, log.len() as u64), Ok(Fed::Whole));
        let snapshot = snapshot(&knows.table, Vec::new());
        assert_eq!(knows.feed(&snapshot, snapshot.len() as u64), Ok(Fed::Whole));
        assert_eq!(contents(&knows.table), states.last().unwrap().1);
        assert_eq!(knows.later_start(), Some(log.len() as u64));
        knows.started_at(log.len() as u64);
        assert_eq!((knows.later_start(), knows.length()), (None, snapshot.len() as u64));

        let mut newcomer = Replay::from(log.len() as u64);
        assert_eq!(newcomer.feed(&snapshot, snapshot.len() as u64), Ok(Fed::Whole));
        assert_eq!(contents(&newcomer.table), states.last().unwrap().1);
        assert_eq!(newcomer.later_start(), None);
    }

    #[test]
    fn a_snapshot_without_its_end_is_no_place_to_start() {
        let (log, states) = told();
        let mut table = Replay::from(0);
        table.feed(&log, log.len() as u64).unwrap();
        let whole = snapshot(&table.table, log.clone());
        let after = alone(Stored::Change(STORY[1].clone()));
        for cut in log.len()..whole.len() {
            let mut replay = Replay::from(0);
            replay.feed(&whole[..cut], cut as u64).unwrap();
            assert_eq!(replay.later_start(), None);
            assert_eq!(contents(&replay.table), states.last().unwrap().1);
            replay.feed(&after, after.len() as u64).unwrap();
            let end = alone(Stored::End);
            replay.feed(&end, end.len() as u64).unwrap();
            assert_eq!(replay.later_start(), None, "cut at {cut}");
        }
    }

    #[test]
    fn a_record_that_cannot_follow_those_before_it_is_damage() {
        for request in [Request::Pop { key: "q" }, Request::Set { key: "", value: b"" }] {
            let log = alone(Stored::Change(request));
            assert!(Replay::from(0).feed(&log, log.len() as u64).is_err());
        }
    }

    proptest! {
        #[test]
        fn a_changed_byte_never_makes_another_story(index in 0..usize::MAX, flip in 1u8..) {
            let (mut log, states) = told();
            let index = index % log.len();
            log[index] ^= flip;
            let mut replay = Replay::from(0);
            let fed = replay.feed(&log, log.len() as u64);
            prop_assert_ne!(fed, Ok(Fed::Whole));
            let (end, expected) = states.iter().rfind(|(end, _)| *end <= index).unwrap();
            prop_assert_eq!(replay.position, *end as u64);
            prop_assert_eq!(&contents(&replay.table), expected);
        }

        #[test]
        fn any_bytes_with_right_checksums_are_replayed_without_harm(
            payloads: Vec<Vec<u8>>,
            kinds: Vec<(u8, u8)>,
        ) {
            let mut log = Vec::new();
            for (payload, (kind, verb)) in payloads.iter().zip(kinds) {
                let payload = [&[kind % 5, verb % 20], payload.as_slice()].concat();
                log = with_payload(&payload, log);
            }
            let mut replay = Replay::from(0);
            let _ = replay.feed(&log, log.len() as u64);
            prop_assert!(replay.position <= log.len() as u64);
        }

        #[test]
        fn pieces_of_logs_in_any_order_are_replayed_without_harm(
            pieces in proptest::collection::vec((0usize..400, 0usize..400), 0..20),
        ) {
            let (story, _) = told();
            let mut table = Replay::from(0);
            table.feed(&story, story.len() as u64).unwrap();
            let source = snapshot(&table.table, story);
            let mut log = Vec::new();
            for (from, to) in pieces {
                let (from, to) = (from.min(source.len()), to.min(source.len()));
                log.extend_from_slice(source.get(from..to).unwrap_or_default());
            }
            let mut replay = Replay::from(0);
            let _ = replay.feed(&log, log.len() as u64);
            prop_assert!(replay.position <= log.len() as u64);
        }
    }

    fn alone(stored: Stored<'_>) -> Vec<u8> {
        let mut log = Vec::new();
        record::encode(&stored, &mut log);
        log
    }

    /// A record around any payload.
    fn with_payload(payload: &[u8], mut log: Vec<u8>) -> Vec<u8> {
        let length = payload.len() as u32;
        log.extend(length.to_le_bytes());
        log.extend((!length).to_le_bytes());
        log.extend(&blake3::hash(payload).as_bytes()[..4]);
        log.extend(payload);
        log
    }
}
