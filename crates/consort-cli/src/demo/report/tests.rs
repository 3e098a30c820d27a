use super::super::failure::{Failure, tests::story};
use super::super::summary::tests::summary;
use super::super::traffic::tests::history;
use super::super::traffic::{Timeline, Traffic};
use super::*;

/// The tags of a page in their order, without what is in them.
fn tags(page: &str) -> Vec<&str> {
    page.split('<').skip(1).map(|it| it.split([' ', '>', '\n']).next().unwrap()).collect()
}

fn full() -> Summary {
    let (history_of_failure, killed) = story();
    let failure = Some(Failure::of(&history_of_failure, killed));
    Summary { traffic: Traffic::of(&history()), failure, ..summary() }
}

#[test]
fn every_tag_that_is_opened_is_closed_in_its_turn() {
    let page = page(&full(), Timeline::of(&history()).as_ref(), "consort demo");
    let mut open = Vec::new();
    for (at, tag) in tags(&page).into_iter().enumerate() {
        match tag.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed), "tag {at}"),
            None if ["!doctype", "meta", "link", "img"].contains(&tag) => {}
            // Those that are closed at once.
            None if ["line", "polyline", "rect"].contains(&tag) => {}
            None => open.push(tag),
        }
    }
    assert_eq!(open, [""; 0]);
}

#[test]
fn what_ranks_and_users_say_stays_text() {
    let evil = "</pre><script>alert('1')</script>\"&";
    let mut summary = full();
    summary.failure.as_mut().unwrap().noticed[0].error = evil.to_owned();
    summary.checks[0].found = evil.to_owned();
    let page = page(&summary, None, evil);
    assert!(!page.contains("<script"), "{page}");
    assert_eq!(page.matches("&lt;/pre&gt;&lt;script&gt;alert(&#39;1&#39;)").count(), 3);
}

#[test]
fn a_failed_check_is_seen_at_once() {
    let mut summary = summary();
    assert!(!page(&summary, None, "").contains("class=\"alarm\""));
    summary.checks[1].passed = false;
    let page = page(&summary, None, "");
    assert!(page.contains("class=\"alarm\"") && page.contains("class=\"failed\""));
}

#[test]
fn what_there_is_not_is_not_shown() {
    let mut summary = Summary { alone: None, speedup: None, loss_difference: None, ..summary() };
    summary.checks.retain(|check| !check.name.contains("one process"));
    let page = page(&summary, None, "");
    for part in ["one process", "id=\"step\"", "id=\"failure\"", "speed-up"] {
        assert!(!page.contains(part), "{part}");
    }
}
