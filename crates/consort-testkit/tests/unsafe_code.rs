//! Where unsafe code is, and where ARCHITECTURE.md says that it is.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its parts")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn the_architecture_names_every_file_with_unsafe_code_and_no_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let crates = fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let found: BTreeSet<_> = crates
        .filter(|path| !path.ends_with("consort-sys")) // which is there for that
        .flat_map(|path| sources(&path.join("src")))
        .filter(|path| is_unsafe(&fs::read_to_string(path).unwrap()))
        .map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(named(&text), found, "named in ARCHITECTURE.md, and found");
}

/// The files that the section about unsafe code leads to.
fn named(text: &str) -> BTreeSet<String> {
    let (_, section) = text.split_once("\n## Unsafe code\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let targets = section.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
    targets.filter(|target| target.ends_with(".rs")).map(str::to_owned).collect()
}

/// The sources in a folder, but for tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let each = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    each.filter(|path| path.extension().is_some_and(|is| is == "rs") && !path.ends_with("tests.rs"))
        .collect()
}

/// Whether there is unsafe code before the tests at the bottom.
fn is_unsafe(text: &str) -> bool {
    let code = text.split("\nmod tests {").next().unwrap();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut words =
        lines.flat_map(|line| line.split(|it: char| !it.is_alphanumeric() && it != '_'));
    words.any(|word| word == "unsafe")
}
