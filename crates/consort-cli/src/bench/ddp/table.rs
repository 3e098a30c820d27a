//! Figures for people: one table for each model.

use std::fmt::Write;

use super::super::table::{micros as digits, ranks, with_commas};
use super::record::Record;

/// What all trainers reached with one model; ours is the first.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    /// In the order of the trainers; whoever did not reach the end is not among them.
    pub(crate) records: Vec<Record>,
}

impl Comparison {
    /// A record's exposed time by that of ours: above 1 ours is shorter. None for ours itself, and where
    /// there is nothing to divide by.
    fn ratio(&self, of: &Record) -> Option<f64> {
        let ours = self.records.first()?;
        let is_ours = ours.name == of.name;
        (!is_ours && ours.exposed_ms > 0.0).then(|| of.exposed_ms / ours.exposed_ms)
    }

    /// Whether the cores moved between the measurements.
    fn is_shaky(&self) -> bool {
        super::super::against::is_shaky(self.records.iter().filter_map(|record| record.hop_us))
    }

    /// All of it as a table.
    pub(crate) fn table(&self, colours: bool) -> String {
        let Some(ours) = self.records.first() else { return String::new() };
        let bold = |text: String| if colours { format!("\x1b[1m{text}\x1b[0m") } else { text };
        let has_peers = self.records.len() > 1;
        let mut text = format!("\n{}\n{:<12}", bold(heading(ours)), "");
        for column in COLUMNS {
            let _ = write!(text, "{column:>9}");
        }
        text.push_str(if has_peers { "    ratio\n" } else { "\n" });
        for record in &self.records {
            let _ = write!(text, "{:<12}{}", record.name, figures(record));
            if record.name != ours.name {
                let _ = write!(text, "{}", self.ratio_in_words(record, colours));
            }
            text.push('\n');
        }
        text
    }

    fn ratio_in_words(&self, record: &Record, colours: bool) -> String {
        let Some(ratio) = self.ratio(record) else { return format!("{:>9}", "–") };
        let mark = if self.is_shaky() { " ~" } else { "" };
        let text = format!("{:>9}{mark}", digits(ratio));
        match (colours, ratio >= 1.0) {
            (false, _) => text,
            (true, true) => format!("\x1b[32m{text}\x1b[0m"),
            (true, false) => format!("\x1b[31m{text}\x1b[0m"),
        }
    }
}

fn heading(record: &Record) -> String {
    let Record { model, tensors, batch, threads, .. } = record;
    let parameters = with_commas(record.parameters as u64);
    let threads = if *threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
    let transport = record.transport.map_or_else(String::new, |it| format!(", {it}"));
    let ranks = ranks(record.ranks);
    format!(
        "{model}: {tensors} tensors of {parameters} parameters, batch {batch}; {ranks} with {threads} \
         each{transport}; ms"
    )
}

fn figures(record: &Record) -> String {
    let Record { step_ms, alone_ms, exposed_ms, first_ms, tenth_ms, .. } = *record;
    let computed = record.step_cpu_ms - record.alone_cpu_ms;
    let percent = |part: f64| format!("{:.0} %", part * 100.0);
    let hidden = record.hidden().map_or("–".to_owned(), percent);
    let [step, alone, exposed, cpu, first, tenth] =
        [step_ms, alone_ms, exposed_ms, computed, first_ms, tenth_ms].map(digits);
    format!("{step:>9}{alone:>9}{exposed:>9}{cpu:>9}{hidden:>9}{first:>9}{tenth:>9}")
}

const COLUMNS: [&str; 7] = ["step", "alone", "exposed", "cpu", "hidden", "first", "tenth"];

#[cfg(test)]
mod tests {
    use super::super::super::setting::{Setting, Transport};
    use super::super::course::{Figures, Times};
    use super::super::shape::Shape;
    use super::super::trainer::Task;
    use super::*;

    fn record(name: &str, step: f64, alone: f64, way: Option<(f64, f64)>) -> Record {
        let setting = Setting {
            ranks: 2,
            transport: Transport::Auto,
            hosts: 1,
            encrypt: false,
            huge_pages: false,
            symmetric: false,
        };
        let shape = Shape { layers: 6, width: 2048, batch: 32 };
        let task = Task { setting, threads: 1, shape };
        let times = |median| Times { median, least: 1.0, computed: median - 1.0 };
        let (together, alone, first, tenth) = (times(step), times(alone), 2.0 * step, step);
        let (steps, hop_us) = (45, Some(0.1));
        let figures = Figures { steps, together, alone, first, tenth, way, hop_us };
        Record::new(name, (name == "consort").then_some("shm"), "mlp", &task, &figures)
    }

    #[test]
    fn a_table_has_a_row_for_each_trainer_and_the_ratio_of_what_is_exposed() {
        let records = vec![
            record("consort", 212.0, 190.0, Some((40.0, 30.0))),
            record("torch", 300.0, 190.0, Some((90.0, 9.0))),
            record("torch-views", 278.0, 190.0, None),
        ];
        insta::assert_snapshot!(Comparison { records }.table(false), @r"

        mlp: 12 tensors of 25,178,112 parameters, batch 32; 2 ranks with 1 thread each, shm; ms
                         step    alone  exposed      cpu   hidden    first    tenth    ratio
        consort           212      190     22.0     22.0     75 %      424      212
        torch             300      190      110      110     10 %      600      300     5.00
        torch-views       278      190     88.0     88.0        –      556      278     4.00
        ");
    }

    #[test]
    fn alone_there_is_no_ratio() {
        let records = vec![record("consort", 2.125, 1.5, None)];
        insta::assert_snapshot!(Comparison { records }.table(false), @r"

        mlp: 12 tensors of 25,178,112 parameters, batch 32; 2 ranks with 1 thread each, shm; ms
                         step    alone  exposed      cpu   hidden    first    tenth
        consort          2.12     1.50     0.62     0.62        –     4.25     2.12
        ");
    }

    #[test]
    fn nothing_is_divided_by_what_is_not_there() {
        let records = vec![record("consort", 1.0, 1.5, None), record("torch", 3.0, 2.0, None)];
        let table = Comparison { records }.table(false);
        assert!(table.contains("    -0.50    -0.50"), "{table}");
        assert!(table.ends_with("        –\n"), "{table}");
    }

    #[test]
    fn a_ratio_of_measurements_that_cannot_be_compared_is_marked() {
        let mut records = vec![record("consort", 2.0, 1.0, None), record("torch", 3.0, 1.0, None)];
        records[0].hop_us = Some(0.05);
        let table = Comparison { records }.table(true);
        assert!(table.contains("\x1b[32m     2.00 ~\x1b[0m"), "{table:?}");
    }

    #[test]
    fn a_record_is_one_line_of_json() {
        let record = record("consort", 212.0, 190.0, Some((40.0, 30.0)));
        let line = r#"{"op":"ddp","impl":"consort","transport":"shm","model":"mlp","tensors":12,"parameters":25178112,"batch":32,"ranks":2,"threads":1,"steps":45,"step_ms":212.0,"alone_ms":190.0,"exposed_ms":22.0,"step_min_ms":1.0,"alone_min_ms":1.0,"step_cpu_ms":211.0,"alone_cpu_ms":189.0,"first_ms":424.0,"tenth_ms":212.0,"communication_ms":40.0,"hidden_ms":30.0,"hop_us":0.1}"#;
        assert_eq!(serde_json::to_string(&record).unwrap(), line);
    }
}
