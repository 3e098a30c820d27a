//! Who can see the job's secret.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use consort_store::Secret;

use super::launch::Launch;

#[test]
fn ranks_can_read_the_secret_but_nobody_sees_it() {
    let script = "cat $CONSORT_SECRET_FILE; echo; echo ready; until [ -e go ]; do sleep 0.05; done";
    let launch = Launch::script(&["-n", "2"], script);
    launch.await_lines(2, "ready");
    let shown: Vec<Vec<u8>> = fs::read_dir("/proc")
        .unwrap()
        .flat_map(|entry| {
            ["cmdline", "environ"].map(|name| entry.as_ref().unwrap().path().join(name))
        })
        .filter_map(|path| fs::read(path).ok())
        .collect();
    assert!(shown.len() > 4, "the ranks at least can be seen");
    launch.touch("go");
    let run = launch.finish_cleanly();
    let secrets: Vec<&str> =
        run.stdout.lines().filter(|line| !line.ends_with("ready")).map(|line| &line[4..]).collect();
    assert_eq!(secrets.len(), 2, "{run:?}");
    assert_eq!(secrets[0], secrets[1]);
    assert!(secrets[0].parse::<Secret>().is_ok(), "{run:?}");
    for text in shown {
        let found = text.windows(secrets[0].len()).any(|part| part == secrets[0].as_bytes());
        assert!(!found, "{}", String::from_utf8_lossy(&text));
    }
}

#[test]
fn a_rank_reads_the_secret_with_the_stores_own_rules() {
    // A file that others may read would be refused.
    let script = "stat -L -c %a $CONSORT_SECRET_FILE";
    assert_eq!(Launch::script(&[], script).finish_cleanly().stdout, "[0] 600\n");
}

#[test]
fn a_secret_that_was_given_is_the_ranks_secret() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("job.secret");
    let secret = Secret::generate().unwrap();
    secret.write_new(&path).unwrap();
    let options = ["--secret-file", path.to_str().unwrap()];
    let run = Launch::script(&options, "cat $CONSORT_SECRET_FILE").finish_cleanly();
    assert_eq!(run.stdout, format!("[0] {}\n", secret.to_hex()));

    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let run = Launch::script(&options, "echo never").finish_cleanly();
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(run.stderr.contains("chmod 600"), "{run:?}");
}
