//! Whether all ranks train the same model in the same way.

use consort::{Dtype, Group};
use serde::{Deserialize, Serialize};

use crate::assign::Caps;
use crate::error::{Error, Result};
use crate::hook::CommHook;
use crate::options::{Settings, Unused};
use crate::parameter::Parameter;

/// What has to be the same on every rank.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Card {
    parameters: Vec<Parameter>,
    settings: Vec<(String, String)>,
}

impl Card {
    fn new(parameters: &[Parameter], settings: &Settings, hook: &dyn CommHook) -> Self {
        let Settings { caps, unused, is_static, is_delayed, rules } = settings;
        let unused = match unused {
            Unused::Average => "averaged",
            Unused::Refuse => "refused",
        };
        let settings = [
            ("sizes of buckets", sizes(caps)),
            ("unused parameters", unused.to_owned()),
            ("static graph", is_static.to_string()),
            ("delay until backward ends", is_delayed.to_string()),
            ("dtype of reduction", rules.dtype.map_or("their own", Dtype::name).to_owned()),
            (
                "memory of gradients",
                if rules.device.is_some() { "devices'" } else { "the host's" }.to_owned(),
            ),
            ("adopted from (bytes)", rules.adopt.map_or("never".to_owned(), |it| it.to_string())),
            ("communication hook", hook.name().to_owned()),
        ];
        let settings = settings.into_iter().map(|(name, value)| (name.to_owned(), value));
        Self { parameters: parameters.to_vec(), settings: settings.collect() }
    }

    /// What is different in another rank's, in lines; the first few.
    fn differences(&self, (me, other, rank): (usize, &Self, usize)) -> Vec<String> {
        let mut lines = Vec::new();
        let (ours, theirs) = (self.parameters.len(), other.parameters.len());
        if ours != theirs {
            lines.push(format!("rank {me} has {ours} parameters, rank {rank} has {theirs}"));
        }
        let pairs = self.parameters.iter().zip(&other.parameters).enumerate();
        for (at, (mine, its)) in pairs.filter(|(_, (mine, its))| mine != its) {
            let (mine, its) = (in_words(mine), in_words(its));
            lines.push(format!("parameter {at}: rank {me} has {mine}, rank {rank} has {its}"));
        }
        let settings = self.settings.iter().zip(&other.settings);
        for ((name, mine), (_, its)) in settings.filter(|(mine, its)| mine != its) {
            lines.push(format!("{name}: rank {me} has {mine}, rank {rank} has {its}"));
        }
        lines
    }
}

/// Compares what this rank has with all others.
///
/// # Errors
/// When ranks differ: the same error on every rank, which shows both sides.
pub(crate) fn agree(
    group: &Group,
    parameters: &[Parameter],
    settings: &Settings,
    hook: &dyn CommHook,
) -> Result<()> {
    let card = Card::new(parameters, settings, hook);
    let bytes = postcard::to_stdvec(&card).expect("it has nothing that cannot be written");
    let digest = *blake3::hash(&bytes).as_bytes();
    let mut digests = vec![0_u8; digest.len() * group.world()];
    group.all_gather(&digest, &mut digests)?;
    if digests.chunks(digest.len()).all(|other| other == digest) {
        return Ok(());
    }
    let cards = exchange(group, &bytes)?;
    Err(Error::Differs { differences: compare(&cards) })
}

/// Whether all is well on every rank, which is asked of each: `mine` says what is not.
///
/// # Errors
/// [`Error::Elsewhere`], the same on every rank, if it is not.
pub(crate) fn all_well(group: &Group, what: &'static str, mine: Option<String>) -> Result<()> {
    let all = gather(group, mine.unwrap_or_default().as_bytes())?;
    let first = all.iter().enumerate().find(|(_, words)| !words.is_empty());
    first.map_or(Ok(()), |(rank, words)| {
        let reason = String::from_utf8_lossy(words).into_owned();
        Err(Error::Elsewhere { rank, what, reason })
    })
}

/// Everyone's cards. One that cannot be read is `None`.
fn exchange(group: &Group, bytes: &[u8]) -> Result<Vec<Option<Card>>> {
    let all = gather(group, bytes)?;
    Ok(all.iter().map(|bytes| postcard::from_bytes(bytes).ok()).collect())
}

/// What every rank has to say, which may be of different lengths.
pub(crate) fn gather(group: &Group, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut lengths = vec![0_u64; group.world()];
    group.all_gather(&[bytes.len() as u64], &mut lengths)?;
    let longest = lengths.iter().copied().max().unwrap_or(0) as usize;
    if longest == 0 {
        return Ok(vec![Vec::new(); group.world()]);
    }
    let mut mine = bytes.to_vec();
    mine.resize(longest, 0);
    let mut all = vec![0; longest * group.world()];
    group.all_gather(&mine, &mut all)?;
    let all = all.chunks(longest).zip(&lengths);
    Ok(all.map(|(bytes, &len)| bytes[..len as usize].to_vec()).collect())
}

/// Holds every rank's card against the first one.
fn compare(cards: &[Option<Card>]) -> String {
    let Some(Some(first)) = cards.first() else {
        return "what rank 0 has cannot be read: is it of another version?".to_owned();
    };
    let mut lines = Vec::new();
    for (rank, card) in cards.iter().enumerate().skip(1) {
        match card {
            Some(card) => lines.extend(first.differences((0, card, rank))),
            None => lines.push(format!("what rank {rank} has cannot be read")),
        }
    }
    in_lines(&lines)
}

/// The first few of what has to be said, and how many more there are.
pub(crate) fn in_lines(all: &[String]) -> String {
    let mut shown: Vec<String> = all.iter().take(SHOWN).map(|line| format!("  {line}")).collect();
    if all.len() > SHOWN {
        shown.push(format!("  and {} more", all.len() - SHOWN));
    }
    shown.join("\n")
}

fn sizes(caps: &Caps) -> String {
    let by_measuring = if caps.are_guessed() { ", then by measuring" } else { "" };
    format!("{:?}{by_measuring}", caps.bytes())
}

fn in_words(parameter: &Parameter) -> String {
    let (name, dtype, shape) = (parameter.name(), parameter.dtype(), parameter.shape());
    let by_rows = if parameter.is_sparse() { ", by rows" } else { "" };
    format!("{name:?}, {dtype} {shape:?} with strides {:?}{by_rows}", parameter.strides())
}

const SHOWN: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_lines_the_first_are_shown_and_the_others_counted() {
        let lines: Vec<String> = (0..SHOWN + 2).map(|at| format!("line {at}")).collect();
        assert_eq!(in_lines(&lines[..2]), "  line 0\n  line 1");
        assert_eq!(in_lines(&lines[..SHOWN]).lines().count(), SHOWN);
        let text = in_lines(&lines);
        assert!(text.ends_with("  line 19\n  and 2 more"), "{text}");
        assert_eq!(in_lines(&[]), "");
    }
}
