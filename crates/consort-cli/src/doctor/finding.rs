//! What was found, and how to take it.

use serde::Serialize;

use super::words;

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) area: Area,
    pub(crate) verdict: Verdict,
    /// The state of things.
    pub(crate) what: String,
    /// What to do, or what to know.
    pub(crate) todo: Option<String>,
}

/// What a finding is about. The report is grouped by it, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Area {
    System,
    Cores,
    Memory,
    Limits,
    Network,
    Clock,
    Files,
    Variables,
    Engines,
    Python,
    Meeting,
    Summary,
}

/// How to take it, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Good,
    Note,
    Warning,
    Bad,
}

impl Finding {
    pub(crate) fn good(area: Area, what: impl Into<String>) -> Self {
        Self { area, verdict: Verdict::Good, what: what.into(), todo: None }
    }

    /// Nothing is wrong, but there is something to know.
    pub(crate) fn note(area: Area, what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { verdict: Verdict::Note, ..Self::good(area, what) }.hint(todo)
    }

    pub(crate) fn warning(area: Area, what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warning, ..Self::good(area, what) }.hint(todo)
    }

    pub(crate) fn bad(area: Area, what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { verdict: Verdict::Bad, ..Self::good(area, what) }.hint(todo)
    }

    fn hint(mut self, todo: impl Into<String>) -> Self {
        self.todo = Some(todo.into());
        self
    }
}

impl Area {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Cores => "cores",
            Self::Memory => "memory",
            Self::Limits => "limits",
            Self::Network => "network",
            Self::Clock => "clock",
            Self::Files => "files",
            Self::Variables => "variables",
            Self::Engines => "engines",
            Self::Python => "python",
            Self::Meeting => "meeting",
            Self::Summary => "summary",
        }
    }
}

impl Verdict {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Bad => "bad",
        }
    }
}

/// The worst verdict; nothing found is good.
pub(crate) fn worst(findings: &[Finding]) -> Verdict {
    findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Good)
}

/// The last line of a report.
pub(crate) fn summary(findings: &[Finding]) -> Finding {
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let (good, notes) = (count(Verdict::Good), count(Verdict::Note));
    let (warnings, bad) = (count(Verdict::Warning), count(Verdict::Bad));
    let notes = match notes {
        0 => String::new(),
        some => format!("{}, ", words::count(some, "note")),
    };
    let warnings = match warnings {
        0 => "no warnings".to_owned(),
        some => words::count(some, "warning"),
    };
    let bad = if bad == 0 { "nothing bad".to_owned() } else { format!("{bad} bad") };
    let what = format!("{good} good, {notes}{warnings}, {bad}");
    Finding { area: Area::Summary, verdict: worst(findings), what, todo: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_and_takes_the_worst() {
        let good = Finding::good(Area::Clock, "fine");
        let warning = Finding::warning(Area::Clock, "slow", "wind it up");
        let bad = Finding::bad(Area::Clock, "stopped", "buy one");
        assert_eq!(summary(&[]).what, "0 good, no warnings, nothing bad");
        assert_eq!(summary(std::slice::from_ref(&good)).verdict, Verdict::Good);
        let all = [good.clone(), warning.clone(), good, warning];
        assert_eq!(summary(&all).what, "2 good, 2 warnings, nothing bad");
        assert_eq!(summary(&all).verdict, Verdict::Warning);
        let note = Finding::note(Area::Clock, "ticks", "get used to it");
        let all = [note.clone(), note];
        assert_eq!(summary(&all).what, "0 good, 2 notes, no warnings, nothing bad");
        assert_eq!(summary(&all).verdict, Verdict::Note);
        assert_eq!(summary(&[bad]).what, "0 good, no warnings, 1 bad");
    }

    #[test]
    fn the_names_on_screen_are_those_in_json() {
        for area in [Area::System, Area::Variables, Area::Meeting, Area::Summary] {
            assert_eq!(serde_json::to_value(area).unwrap(), area.name());
        }
        for verdict in [Verdict::Good, Verdict::Note, Verdict::Warning, Verdict::Bad] {
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.name());
        }
    }
}
