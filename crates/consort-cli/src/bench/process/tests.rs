use super::*;

fn shell(script: &str) -> Process {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Process::start("sh", command).unwrap()
}

fn hear(process: &mut Process, patience: Duration) -> Result<u32, Refusal> {
    #[derive(serde::Deserialize)]
    struct Number {
        number: u32,
    }
    process.hear::<Number>(patience).map(|answer| answer.number)
}

fn gone(refusal: &Refusal) -> &str {
    match refusal {
        Refusal::Gone(why) => why,
        Refusal::Point(_) => panic!("{refusal:?}"),
    }
}

#[test]
fn lines_are_answered_and_chatter_is_ignored() {
    let mut process = shell(r#"while read n; do echo hello; echo "{\"number\": $n}"; done"#);
    for number in [7, 8] {
        process.tell(&number.to_string()).unwrap();
        assert_eq!(hear(&mut process, LONG), Ok(number));
    }
}

#[test]
fn a_question_that_cannot_be_answered_leaves_the_process_alone() {
    let mut process = shell(r#"echo '{"error": "too large"}'; echo '{"number": 1}'; read end"#);
    assert_eq!(hear(&mut process, LONG), Err(Refusal::Point("too large".to_owned())));
    assert_eq!(hear(&mut process, LONG), Ok(1));
}

#[test]
fn an_end_is_told_with_its_status_and_last_words() {
    let mut process = shell("echo run bench/setup >&2; exit 3");
    let refusal = hear(&mut process, LONG).unwrap_err();
    let why = gone(&refusal);
    assert!(why.starts_with("sh: ended with exit status: 3"), "{why}");
    assert!(why.ends_with("run bench/setup"), "{why}");
    assert!(process.tell("anyone?").is_err());
}

#[test]
fn silence_is_told_from_an_end() {
    let mut process = shell("read end");
    let refusal = hear(&mut process, Duration::from_millis(50)).unwrap_err();
    assert!(gone(&refusal).contains("no answer within"), "{refusal}");
}

#[test]
fn what_is_no_answer_to_the_question_ends_the_talk() {
    let mut process = shell(r#"echo '{"letters": "abc"}'; read end"#);
    let refusal = hear(&mut process, LONG).unwrap_err();
    assert!(gone(&refusal).contains(r#"{"letters": "abc"}"#), "{refusal}");
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let refusal = Process::start("nobody", Command::new("/does/not/exist")).unwrap_err();
    assert!(gone(&refusal).starts_with("nobody: cannot start: "), "{refusal}");
}

#[test]
fn nothing_is_left_behind_by_one_that_neither_listens_nor_ends() {
    // In a session of its own, deaf to requests, and its parent gone before it.
    let mut process = shell(
        r#"setsid sh -c 'trap "" TERM HUP; echo "{\"number\": $$}"; while :; do sleep 1; done' &
           trap "" TERM; read end; sleep 1000"#,
    );
    let number = hear(&mut process, LONG).unwrap();
    let alive = || fs::read(format!("/proc/{number}/environ")).is_ok_and(|it| !it.is_empty());
    assert!(alive());
    drop(process);
    assert!(!alive());
}

const LONG: Duration = Duration::from_secs(60);
