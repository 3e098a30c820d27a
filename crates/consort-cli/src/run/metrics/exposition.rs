//! Metrics as the text that Prometheus reads, version 0.0.4 of its format.

use std::fmt::{Display, Write};

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It only grows.
    Counter,
    /// It may be anything.
    Gauge,
}

/// A text to which families of metrics are added, one after the other.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
}

impl Page {
    /// Adds the metrics of one name, of each set of labels one. Without any it is left out.
    pub(super) fn family<V: Display>(
        &mut self,
        (name, kind, help): (&str, Kind, &str),
        samples: impl IntoIterator<Item = (Vec<(&'static str, String)>, V)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        // Nothing can go wrong with a text in memory.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(self.text, "{name}{} {value}", in_braces(&labels));
        }
    }

    /// Adds a metric without labels.
    pub(super) fn single(&mut self, family: (&str, Kind, &str), value: impl Display) {
        self.family(family, [(Vec::new(), value)]);
    }

    /// All of it.
    pub(super) fn into_text(self) -> String {
        self.text
    }
}

fn in_braces(labels: &[(&str, String)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let label = |(name, value): &(&str, String)| format!("{name}=\"{}\"", escaped(value));
    format!("{{{}}}", labels.iter().map(label).collect::<Vec<_>>().join(","))
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_says_what_it_is_once() {
        let mut page = Page::default();
        let labelled = |rank: &str, value| (vec![("rank", rank.to_owned())], value);
        page.family(("a_total", Kind::Counter, "of all"), [labelled("0", 7), labelled("1", 8)]);
        page.single(("b", Kind::Gauge, "of one"), 0.25);
        page.family(("c", Kind::Gauge, "of none"), Vec::<(_, u8)>::new());
        let expected = "# HELP a_total of all\n# TYPE a_total counter\n\
                        a_total{rank=\"0\"} 7\na_total{rank=\"1\"} 8\n\
                        # HELP b of one\n# TYPE b gauge\nb 0.25\n";
        assert_eq!(page.into_text(), expected);
    }

    #[test]
    fn no_label_breaks_out_of_its_line() {
        let labels = [("a", "x\"} 1\ny \\".to_owned()), ("b", String::new())];
        assert_eq!(in_braces(&labels), r#"{a="x\"} 1\ny \\",b=""}"#);
    }
}
