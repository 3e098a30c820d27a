//! A page about a run, which needs nothing else: pure.

mod curve;
mod html;
mod lanes;
mod pictures;
mod png;

use std::fmt::Write;

use curve::Curves;
use html::Escaped;
use lanes::Lanes;

use super::figures::{accuracy, bytes, count, percent, time};
use super::rows::{self, Cell, Row};
use super::summary::{Check, Summary};
use super::text::{cores, ranks, threads};
use super::traffic::Timeline;

/// The whole page.
pub(crate) fn page(summary: &Summary, timeline: Option<&Timeline>, command: &str) -> String {
    let mut body = head(summary);
    body.push_str(&cards(summary));
    body.push_str(&learning(summary));
    if let Some(timeline) = timeline {
        body.push_str(&one_step(summary, timeline));
    }
    body.push_str(&failure(summary));
    body.push_str(&figures(summary));
    body.push_str(&checks(summary));
    body.push_str(&pictures(summary));
    body.push_str(&foot(summary, command));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light \
         dark\">\n<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        Escaped(title(summary))
    )
}

fn title(summary: &Summary) -> String {
    format!("consort demo: {} learn to read digits", ranks(summary.ranks))
}

fn head(summary: &Summary) -> String {
    let Summary { distributed, speedup, .. } = summary;
    let (who, learned) = (ranks(summary.ranks), time(distributed.seconds));
    let mut lead = match (speedup, summary.loss_difference) {
        (Some(speedup), Some(_)) => format!(
            "One process on its own, with as many threads as one rank, needs {speedup:.2} times as long for \
             the same steps."
        ),
        _ => "Every rank has the whole model and a share of each batch.".to_owned(),
    };
    if let Some(failure) = &summary.failure {
        let _ = write!(
            lead,
            " Rank {} was killed after step {}, and the others went on without it.",
            failure.rank, failure.after_step
        );
    }
    let verdict = match summary.is_good() {
        true => "",
        false => "<p class=\"alarm\">Something is not as it should be: see the checks below.</p>\n",
    };
    format!(
        "<header>\n<p class=\"brand\">consort demo</p>\n<h1>{}</h1>\n<p class=\"lead\">{}</p>\n{verdict}\
         </header>\n",
        Escaped(format!("{who} learned to read digits in {learned}")),
        Escaped(lead)
    )
}

/// The figures to look at first.
fn cards(summary: &Summary) -> String {
    let mut cards: Vec<(String, String)> = Vec::new();
    if let Some(speedup) = summary.speedup {
        cards.push((format!("{speedup:.2} ×"), "as fast as one process".to_owned()));
    }
    let figures = &summary.distributed;
    cards.push((
        accuracy(figures.test_accuracy),
        "of pictures it has not seen read rightly".to_owned(),
    ));
    cards.push((count(figures.samples_per_second), "pictures learned from in a second".to_owned()));
    if let Some(traffic) = &summary.traffic {
        let on_the_way = time(traffic.communication_ms * 1e-3);
        let note = format!(
            "of the {on_the_way} that gradients travel in a step is hidden behind backward"
        );
        cards.push((percent(traffic.hidden_share), note));
    }
    if let Some(millis) = summary.failure.as_ref().and_then(|failure| failure.resumed_after_ms) {
        cards.push((time(millis * 1e-3), "from the kill until the others went on".to_owned()));
    }
    let mut html = "<ul class=\"cards\">\n".to_owned();
    for (figure, note) in cards {
        let _ = writeln!(html, "<li><b>{}</b><span>{}</span></li>", Escaped(figure), Escaped(note));
    }
    html.push_str("</ul>\n");
    html
}

fn learning(summary: &Summary) -> String {
    let alone = summary.alone.as_ref().map(|alone| &alone.losses[..]);
    let killed = summary.failure.as_ref().map(|failure| (failure.after_step, failure.rank));
    let curves = Curves { ranks: &summary.distributed.losses, alone, killed };
    let mut legend = format!("<span class=\"key ranks\">{}</span>", Escaped(ranks(summary.ranks)));
    if alone.is_some() {
        legend.push_str("<span class=\"key alone\">one process</span>");
    }
    let mut said = match summary.loss_difference {
        Some(_) => {
            "The ranks begin with the same parameters as one process and share its batches, so their loss is \
             the same but for rounding: the thin line lies on the broad one."
        }
        None => "How wrong the model is on each batch before it learns from it.",
    }
    .to_owned();
    if curves.window() > 1 {
        let _ = write!(said, " Each point is the average of {} steps.", curves.window());
    }
    format!(
        "<section id=\"learning\">\n<h2>Loss of each step</h2>\n<p>{}</p>\n<p class=\"legend\">{legend}</p>\n\
         {}</section>\n",
        Escaped(said),
        curves.draw()
    )
}

fn one_step(summary: &Summary, timeline: &Timeline) -> String {
    let keys = [
        ("draws", "drawing pictures"),
        ("forward", "forward"),
        ("backward", "backward"),
        ("bucket", "a bucket of gradients on its way"),
        ("wait", "waiting for buckets"),
        ("update", "changing parameters"),
    ];
    let legend: String = keys
        .iter()
        .map(|(class, name)| format!("<span class=\"key {class}\">{name}</span>"))
        .collect();
    let usual = summary.traffic.as_ref().map_or_else(String::new, |traffic| {
        let ms = |millis: f64| time(millis * 1e-3);
        format!(
            " On average over all steps and ranks, {} of gradients are on their way for {} of a step of {}; {} \
             of that is hidden behind backward, {} is exposed.",
            bytes(traffic.bytes),
            ms(traffic.communication_ms),
            ms(traffic.step_ms),
            ms(traffic.hidden_ms),
            ms(traffic.exposed_ms)
        )
    });
    let said = format!(
        "Step {}, which took as long as most. Backward goes from the last layer to the first; a bucket leaves \
         as soon as its gradients are there, and waits for those of the other ranks and travels while backward \
         computes the next ones.{usual}",
        timeline.step + 1
    );
    let sizes = timeline.lanes.first().map_or_else(String::new, |lane| {
        let sizes: Vec<String> = lane.buckets.iter().map(|bucket| bytes(bucket.bytes)).collect();
        format!("The buckets in the order in which they leave: {}.", sizes.join(", "))
    });
    format!(
        "<section id=\"step\">\n<h2>One step on every rank</h2>\n<p>{}</p>\n<p class=\"legend\">{legend}</p>\n\
         {}<p class=\"note\">{}</p>\n</section>\n",
        Escaped(said),
        Lanes::of(timeline).draw(),
        Escaped(sizes)
    )
}

fn failure(summary: &Summary) -> String {
    let Some(failure) = &summary.failure else { return String::new() };
    let mut moments = vec![(
        "0 ms".to_owned(),
        format!("Rank {} is killed (SIGKILL), after step {}.", failure.rank, failure.after_step),
        None,
    )];
    for it in &failure.noticed {
        let said = format!("Rank {} notices, in step {}:", it.rank, it.step);
        moments.push((time(it.after_ms * 1e-3), said, Some(&it.error)));
    }
    if let Some(millis) = failure.resumed_after_ms {
        let who = match &failure.survivors[..] {
            [one] => format!("Rank {one} goes on alone"),
            many => format!("{} ranks go on", many.len()),
        };
        let said = format!(
            "{who}: those who are left have agreed on a smaller group, on the step to go on with and on \
             their parameters, and share the same batches from now on."
        );
        moments.push((time(millis * 1e-3), said, None));
    }
    let mut html =
        "<section id=\"failure\">\n<h2>A rank is killed</h2>\n<ol class=\"story\">\n".to_owned();
    for (moment, said, error) in moments {
        let error =
            error.map_or_else(String::new, |error| format!("<pre>{}</pre>", Escaped(error)));
        let _ = writeln!(
            html,
            "<li><time>{}</time><div><p>{}</p>{error}</div></li>",
            Escaped(moment),
            Escaped(said)
        );
    }
    html.push_str("</ol>\n</section>\n");
    html
}

fn figures(summary: &Summary) -> String {
    let alone = summary.alone.is_some();
    let head = if alone { "<th scope=\"col\">one process</th>" } else { "" };
    let mut html = format!(
        "<section id=\"figures\">\n<h2>Figures</h2>\n<table>\n<thead><tr><td></td><th scope=\"col\">{}</th>\
         {head}</tr></thead>\n<tbody>\n",
        Escaped(ranks(summary.ranks))
    );
    for row in rows::results(summary) {
        html.push_str(&table_row(&row, "", alone));
    }
    if let Some(speedup) = summary.speedup {
        let ranks = Cell { shown: format!("{speedup:.2}"), value: speedup };
        html.push_str(&table_row(
            &Row { name: "speed-up", key: "speedup", ranks, alone: None },
            "",
            alone,
        ));
    }
    html.push_str("</tbody>\n<tbody>\n");
    for row in rows::traffic(summary) {
        html.push_str(&table_row(&row, "traffic", alone));
    }
    html.push_str("</tbody>\n</table>\n</section>\n");
    html
}

fn table_row(row: &Row, group: &str, has_alone: bool) -> String {
    let Row { name, key, ranks, alone } = row;
    let data = |cell: &Cell| {
        format!("<td><data value=\"{}\">{}</data></td>", Escaped(cell.value), Escaped(&cell.shown))
    };
    let second = match alone {
        Some(cell) => data(cell),
        None if has_alone => "<td></td>".to_owned(),
        None => String::new(),
    };
    format!(
        "<tr data-key=\"{}\" data-group=\"{}\"><th scope=\"row\">{}</th>{}{second}</tr>\n",
        Escaped(key),
        Escaped(group),
        Escaped(name),
        data(ranks)
    )
}

fn checks(summary: &Summary) -> String {
    let mut html = "<section id=\"checks\">\n<h2>Checks</h2>\n<ul class=\"checks\">\n".to_owned();
    for Check { name, passed, found } in &summary.checks {
        let (class, mark) = if *passed { ("passed", "✓") } else { ("failed", "✗") };
        let _ = writeln!(
            html,
            "<li class=\"{class}\"><b>{mark}</b><div>{}<small>{}</small></div></li>",
            Escaped(name),
            Escaped(found)
        );
    }
    html.push_str("</ul>\n</section>\n");
    html
}

fn pictures(summary: &Summary) -> String {
    let shown = pictures::show(summary.seed, &summary.distributed.answers);
    format!(
        "<section id=\"pictures\">\n<h2>What the model takes pictures for</h2>\n{shown}</section>\n"
    )
}

fn foot(summary: &Summary, command: &str) -> String {
    let Summary { cores: count_of_cores, model, steps, batch, seed, .. } = summary;
    let said = format!(
        "A model of {} numbers in {} parameters learned for {steps} steps from {batch} pictures each, on a \
         machine with {}, {} for each process. All pictures are drawn from seed {seed}. Made by \
         consort {}; again:",
        count(model.numbers as f64),
        model.parameters,
        cores(*count_of_cores),
        threads(summary.threads),
        env!("CARGO_PKG_VERSION")
    );
    format!("<footer>\n<p>{}</p>\n<pre>{}</pre>\n</footer>\n", Escaped(said), Escaped(command))
}

const STYLE: &str = include_str!("report/style.css");

#[cfg(test)]
mod tests;
