use super::super::args::tests::args;
use super::*;

fn agenda(line: &str) -> Agenda {
    Agenda::of(&args(line).unwrap()).unwrap()
}

fn refusal(line: &str) -> String {
    Agenda::of(&args(line).unwrap()).unwrap_err()
}

#[test]
fn what_needs_no_remark_gets_none() {
    let agenda = agenda("all -n 2");
    assert!(agenda.remarks.is_empty() && agenda.omissions.is_empty(), "{agenda:?}");
}

#[test]
fn a_reduction_that_no_dtype_has_is_refused() {
    let why = "no all_reduce of f32: f32 has no bit_xor: it can be reduced with ";
    assert!(refusal("--op bit_xor").starts_with(why), "{}", refusal("--op bit_xor"));
}

#[test]
fn a_reduction_that_some_dtype_has_is_measured_with_that() {
    let agenda = agenda("all_reduce broadcast --op bit_xor --dtype f32,u8 --bytes 8,64");
    let points: Vec<String> = agenda.points.iter().map(Point::to_string).collect();
    assert_eq!(points.iter().filter(|it| it.starts_with("all_reduce u8")).count(), 2);
    assert_eq!(points.iter().filter(|it| it.starts_with("broadcast")).count(), 4);
    assert_eq!(points.len(), 6);
    assert_eq!(agenda.omissions.len(), 1, "once, not for each size: {agenda:?}");
}

#[test]
fn a_reduction_that_nothing_uses_is_said_to_be_ignored() {
    assert_eq!(
        agenda("broadcast gather --op max").remarks,
        ["--op max is ignored: nothing is combined by broadcast, gather"]
    );
    assert!(agenda("broadcast reduce --op max").remarks.is_empty());
}

#[test]
fn sizes_that_are_rounded_are_told() {
    assert_eq!(
        agenda("--bytes 7,8").remarks,
        ["sizes are rounded to whole elements for each rank: 7 B to 4 B (all_reduce f32)"]
    );
    let many = agenda("all_gather barrier -n 3 --bytes 1,2,4,8,16,64").remarks;
    assert!(many[0].ends_with(" 8 B to 12 B (all_gather f32) and 2 more"), "{many:?}");
}

#[test]
fn what_excludes_each_other_is_refused_with_a_way_out() {
    for (line, why) in [
        ("--hosts 2 --transport shm", "leave out --hosts or --transport shm"),
        ("--encrypt", "give --transport tcp or --hosts"),
        ("--hosts 2 --symmetric", "leave out --symmetric, or --hosts"),
        ("--transport tcp --symmetric", "leave out --symmetric, or --hosts"),
        ("--hosts 2 --against mpich", "leave out --hosts or --against"),
        ("--hosts 3 -n 2", "give -n 3"),
    ] {
        assert!(refusal(line).contains(why), "{line}: {}", refusal(line));
    }
    for line in ["--transport tcp", "--transport shm --symmetric", "--hosts 2 --transport tcp"] {
        assert!(agenda(line).remarks.is_empty(), "{line}");
    }
}

#[test]
fn a_peer_that_does_not_exist_is_answered_with_those_that_do() {
    let why = refusal("--against gloo,nosuch");
    assert!(why.starts_with("there is no peer \"nosuch\" in "), "{why}");
    assert!(why.ends_with(": choose some of gloo, intelmpi, mpich, openmpi"), "{why}");
    assert_eq!(agenda("--against mpich").remarks, [""; 0]);
}

#[test]
fn a_drawing_that_cannot_be_written_is_refused_and_none_is_left_behind() {
    assert!(refusal("--plot /nonexistent/x.svg").starts_with("cannot write /nonexistent/x.svg: "));
    let folder = tempfile::tempdir().unwrap();
    let (new, old) = (folder.path().join("new.svg"), folder.path().join("old.svg"));
    fs::write(&old, "a drawing").unwrap();
    for path in [&new, &old] {
        agenda(&format!("--plot {}", path.display()));
    }
    assert!(!new.exists());
    assert_eq!(fs::read_to_string(&old).unwrap(), "a drawing");
}
