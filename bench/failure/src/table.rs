//! Findings as a table that people read, here and in documents.

use crate::finding::{Finding, Share, UNAWARE};

/// A table of findings, scenario by scenario, in the order in which they come.
pub(crate) fn draw(findings: &[Finding]) -> String {
    let mut scenarios: Vec<&str> = Vec::new();
    for finding in findings {
        if !scenarios.contains(&finding.scenario.as_str()) {
            scenarios.push(&finding.scenario);
        }
    }
    let mut table = String::from(HEAD);
    for scenario in scenarios {
        let mut title = true;
        for finding in findings.iter().filter(|finding| finding.scenario == scenario) {
            table.push_str(&row(finding, std::mem::take(&mut title)));
        }
    }
    table
}

fn row(finding: &Finding, with_title: bool) -> String {
    let title = if with_title { finding.title.as_str() } else { "" };
    let total = finding.outcomes.iter().map(|share| share.count).sum();
    let got: Vec<_> = finding.outcomes.iter().map(|share| told(share, total)).collect();
    format!(
        "| {title} | {} | {} | {} | {} | {} | {} |\n",
        finding.library,
        got.join(", "),
        time(finding.median_ms),
        time(finding.longest_ms),
        part(finding.named, finding.errors),
        part(finding.went_on, finding.tried),
    )
}

fn told(share: &Share, total: usize) -> String {
    let what = match share.what.as_str() {
        UNAWARE if !share.example.is_empty() => format!("{UNAWARE} ({})", share.example),
        what => what.to_owned(),
    };
    if share.count == total { what } else { format!("{what} {} of {total}", share.count) }
}

/// Three digits that mean something.
fn time(ms: Option<f64>) -> String {
    match ms {
        None => "–".to_owned(),
        Some(ms) if ms >= 1000.0 => format!("{:.1} s", ms / 1000.0),
        Some(ms) if ms >= 10.0 => format!("{ms:.0} ms"),
        Some(ms) => format!("{ms:.1} ms"),
    }
}

fn part(count: usize, of: usize) -> String {
    match (count, of) {
        (_, 0) => "–".to_owned(),
        (0, _) => "no".to_owned(),
        _ if count == of => "yes".to_owned(),
        _ => format!("{count} of {of}"),
    }
}

const HEAD: &str = "\
| what happens | library | what ranks get | median | longest | names the rank | go on |
|---|---|---|---:|---:|---|---|
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::Library;
    use crate::scenario::Scenario;

    #[test]
    fn a_scenario_has_its_title_once_and_a_row_for_each_library() {
        let scenario = Scenario::called("kill").unwrap();
        let finding = |library| Finding::of(library, &scenario, &[], [0.0, 0.0]);
        let mut first = finding(Library::Consort);
        let share =
            |what: &str, count| Share { what: what.to_owned(), count, example: String::new() };
        first.outcomes = vec![share("PeerGone", 27), share("hangs", 3)];
        (first.median_ms, first.longest_ms) = (Some(4.25), Some(1234.0));
        (first.named, first.errors) = (27, 27);
        let table = draw(&[first, finding(Library::Gloo)]);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(rows[0].matches(scenario.title).count(), 1);
        let told = "| consort | PeerGone 27 of 30, hangs 3 of 30 | 4.2 ms | 1.2 s | yes | – |";
        assert!(rows[0].ends_with(told), "{}", rows[0]);
        assert!(rows[1].starts_with("|  | Gloo |"), "{}", rows[1]);
    }
}
