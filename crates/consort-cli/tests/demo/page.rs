//! The page that is written, as somebody sees it who opens it in a browser.

use std::fs;

use serde_json::Value;

use super::browser::Browser;
use super::launch::Launch;
use super::{start_with, summary};

/// A run with everything that a page can show, its page and its figures.
fn with_everything() -> (tempfile::TempDir, Value) {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let options = ["--report".as_ref(), page.as_os_str()];
    let launch: Launch = start_with("-n 3 --kill-a-rank --steps 20 --batch 12 --json", options);
    let run = launch.finish_cleanly();
    assert_eq!(run.code, 0, "{run:?}");
    (folder, summary(&run))
}

#[test]
fn a_page_needs_nothing_but_itself() {
    let (folder, _) = with_everything();
    let text = fs::read_to_string(folder.path().join("page.html")).unwrap();
    for part in ["http:", "https:", "<script", "@import", "url("] {
        assert!(!text.contains(part), "{part}");
    }
    for source in text.split("src=\"").skip(1) {
        assert!(source.starts_with("data:image/png;base64,"), "{}", &source[..40]);
    }
}

#[test]
fn somebody_who_opens_the_page_sees_what_there_is_to_see() {
    let browser = match Browser::start() {
        Ok(browser) => browser,
        Err(reason) => return consort_testkit::skip(reason),
    };
    let (folder, summary) = with_everything();
    browser.set_width(1200);
    browser.visit(&folder.path().join("page.html"));

    assert_eq!(browser.find("return document.title"), "consort demo: 3 ranks learn to read digits");
    sees_both_curves(&browser);
    sees_a_lane_for_each_rank(&browser);
    sees_the_figures(&browser, &summary);
    sees_the_pictures(&browser);
    sees_who_was_killed(&browser, &summary);
    fits_on_a_phone(&browser);
    can_read_it_in_the_dark(&browser);
    let loaded = browser.find(
        "return performance.getEntriesByType('resource').map(it => it.name)
             .filter(name => !name.startsWith('data:'))",
    );
    assert_eq!(loaded, Value::Array(Vec::new()), "it needs nothing else");
    assert_eq!(browser.complaints(), Vec::<Value>::new());
}

fn sees_both_curves(browser: &Browser) {
    let curves = browser.find(&format!(
        "{BOX} return [...document.querySelectorAll('.curves polyline')].map(it => ({{
             class: it.getAttribute('class'), box: box(it), points: it.points.length,
             stroke: getComputedStyle(it).stroke, is_visible: it.checkVisibility(),
         }}))"
    ));
    let curves = curves.as_array().unwrap();
    assert_eq!(curves.len(), 2, "{curves:?}");
    for curve in curves {
        assert_eq!((&curve["points"], &curve["is_visible"]), (&20.into(), &true.into()), "{curve}");
        let [left, top, right, bottom] = sides(&curve["box"]);
        assert!(right - left > 600.0 && bottom - top > 20.0, "{curve}");
    }
    assert_ne!(curves[0]["stroke"], curves[1]["stroke"], "they can be told apart");
}

fn sees_a_lane_for_each_rank(browser: &Browser) {
    let lanes = browser.find(&format!(
        "{BOX} return [...document.querySelectorAll('.lanes .lane')].map(lane => ({{
             rank: lane.dataset.rank, name: lane.querySelector('.name').textContent,
             ground: box(document.querySelector(`.ground[data-rank='${{lane.dataset.rank}}']`)),
             bars: [...lane.querySelectorAll('.bar')].map(bar => ({{
                 class: bar.getAttribute('class'), title: bar.querySelector('title').textContent,
                 box: box(bar.querySelector('rect')),
             }})),
         }}))"
    ));
    let lanes = lanes.as_array().unwrap();
    assert_eq!(lanes.len(), 3, "{lanes:?}");
    let mut above = f64::MIN;
    for (rank, lane) in lanes.iter().enumerate() {
        assert_eq!(lane["name"], format!("rank {rank}"));
        let [left, top, right, bottom] = sides(&lane["ground"]);
        assert!(top > above, "lanes lie below each other");
        above = bottom;
        let bars = lane["bars"].as_array().unwrap();
        for bar in bars {
            let [bar_left, bar_top, bar_right, bar_bottom] = sides(&bar["box"]);
            assert!(bar_right > bar_left && bar_bottom - bar_top > 8.0, "{bar} can be seen");
            let is_inside = bar_left > left - 1.0
                && bar_right < right + 1.0
                && bar_top > top - 1.0
                && bar_bottom < bottom + 1.0;
            assert!(is_inside, "{bar} is in {}", lane["ground"]);
        }
        let has =
            |class: &str| bars.iter().filter(|bar| bar["class"] == format!("bar {class}")).count();
        assert_eq!((has("forward"), has("backward")), (1, 1), "{lane}");
        assert!(has("bucket") > 1, "{lane}");
        let told = bars.iter().filter(|bar| bar["class"] == "bar bucket");
        for bar in told {
            let title = bar["title"].as_str().unwrap();
            assert!(title.starts_with("bucket ") && title.contains("KiB"), "{title}");
        }
    }
}

fn sees_the_figures(browser: &Browser, summary: &Value) {
    let rows = browser.find(
        "return [...document.querySelectorAll('#figures tr[data-key]')].map(row => ({
             key: row.dataset.key, group: row.dataset.group,
             cells: [...row.querySelectorAll('data')].map(it => [it.value, it.textContent]),
         }))",
    );
    let rows = rows.as_array().unwrap();
    assert!(rows.len() > 12, "{rows:?}");
    for row in rows {
        let key = row["key"].as_str().unwrap();
        let found = row["cells"].as_array().unwrap();
        let expected = match (row["group"].as_str().unwrap(), key) {
            ("traffic", _) => vec![&summary["traffic"][key]],
            (_, "speedup") => vec![&summary["speedup"]],
            _ => vec![&summary["distributed"][key], &summary["alone"][key]],
        };
        assert_eq!(found.len(), expected.len(), "{row}");
        for (cell, expected) in found.iter().zip(expected) {
            let value: f64 = cell[0].as_str().unwrap().parse().unwrap();
            // The last bit may be lost when a number is read.
            let expected = expected.as_f64().unwrap();
            assert!(
                (value - expected).abs() <= expected.abs() * 1e-12,
                "{key}: {value}, {expected}"
            );
            let shown = cell[1].as_str().unwrap();
            assert!(shown.contains(|it: char| it.is_ascii_digit()), "{key}: {shown}");
        }
    }
    let shown = |key: &str| {
        let row = rows.iter().find(|row| row["key"] == key).unwrap();
        row["cells"][0][1].as_str().unwrap().to_owned()
    };
    let accuracy = summary["distributed"]["test_accuracy"].as_f64().unwrap();
    assert_eq!(shown("test_accuracy"), format!("{:.2} %", accuracy * 100.0));
    assert_eq!(shown("speedup"), format!("{:.2}", summary["speedup"].as_f64().unwrap()));
}

fn sees_the_pictures(browser: &Browser) {
    let pictures = browser.find(
        "return [...document.querySelectorAll('.pictures img')].map(it => {
             const canvas = document.createElement('canvas');
             canvas.width = canvas.height = 20;
             const pen = canvas.getContext('2d');
             pen.drawImage(it, 0, 0);
             const grey = [...pen.getImageData(0, 0, 20, 20).data].filter((_, at) => at % 4 == 0);
             return [it.complete, it.naturalWidth, it.naturalHeight,
                     grey.filter(it => it < 128).length, it.nextElementSibling.textContent];
         })",
    );
    let pictures = pictures.as_array().unwrap();
    assert!(pictures.len() >= 20, "{pictures:?}");
    for picture in pictures {
        assert_eq!((&picture[0], &picture[1], &picture[2]), (&true.into(), &20.into(), &20.into()));
        let dark = picture[3].as_u64().unwrap();
        assert!((10..250).contains(&dark), "something is drawn on paper: {picture}");
        let answer = picture[4].as_str().unwrap();
        assert!(answer.starts_with(|it: char| it.is_ascii_digit()), "{answer}");
    }
}

fn sees_who_was_killed(browser: &Browser, summary: &Value) {
    let killed = &summary["failure"]["rank"];
    let story = browser.find("return document.querySelector('#failure').innerText");
    let story = story.as_str().unwrap();
    for part in [
        format!("Rank {killed} is killed"),
        format!("rank {killed} is gone"),
        "2 ranks go on".into(),
    ] {
        assert!(story.contains(&part), "{part}: {story}");
    }
}

fn fits_on_a_phone(browser: &Browser) {
    for width in [400, 320] {
        browser.set_width(width);
        let beyond = browser.find(
            "return [...document.querySelectorAll('body *')]
                 .filter(it => it.getBoundingClientRect().right > innerWidth + 0.5)
                 .map(it => it.outerHTML.slice(0, 200))",
        );
        assert_eq!(beyond, Value::Array(Vec::new()), "at {width} pixels");
        let [page, screen] = ["scrollWidth", "clientWidth"]
            .map(|what| browser.find(&format!("return document.documentElement.{what}")));
        assert_eq!(page, screen, "at {width} pixels");
        assert_eq!(screen, width);
    }
    browser.set_width(1200);
}

fn can_read_it_in_the_dark(browser: &Browser) {
    let contrast = "
        const parts = colour => colour.match(/[0-9.]+/g).slice(0, 3).map(it => it / 255)
            .map(it => it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4);
        const light = colour => { const [r, g, b] = parts(colour); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const paper = light(getComputedStyle(document.body).backgroundColor);
        return [paper, ...['h1', '.lead', '.brand', 'td data', '.tick', '#pictures p'].map(name => {
            const style = getComputedStyle(document.querySelector(name));
            const ink = light(name == '.tick' ? style.fill : style.color);
            return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
        })]";
    let [light, dark] = ["light", "dark"].map(|scheme| {
        browser.set_scheme(scheme);
        let found: Vec<f64> = serde_json::from_value(browser.find(contrast)).unwrap();
        assert!(found[1..].iter().all(|contrast| *contrast >= 4.5), "{scheme}: {found:?}");
        found[0]
    });
    assert!(light > 0.8 && dark < 0.05, "paper is {light} in the light and {dark} in the dark");
}

/// Left, top, right and bottom.
fn sides(of: &Value) -> [f64; 4] {
    serde_json::from_value(of.clone()).unwrap()
}

/// A function for the scripts.
const BOX: &str = "const box = it => { const at = it.getBoundingClientRect();
                   return [at.left, at.top, at.right, at.bottom]; };";
