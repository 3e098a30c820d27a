//! The disk is full on which the ranks have their store.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use consort::Group;
use consort_testkit::{Context, Outcome, Skip};
use rustix::process::Signal;

use crate::life::{AT_WORK, Story, Terms, WARM, met_in, work, work_until_it_fails};
use crate::numbers::Style;
use crate::scenario::{Scenario, faults};
use crate::verdict::Trial;

faults! { [shm tcp mixed] [blocking asynchronous scoped]
    the_disk_of_the_store_is_full
}

/// Runs the test once more where a small file system is mounted that nobody else sees.
fn the_disk_of_the_store_is_full(scenario: Scenario) -> Result<(), Skip> {
    if let Some(disk) = env::var_os(DISK) {
        return fill(scenario, &PathBuf::from(disk));
    }
    let folder = tempfile::tempdir().unwrap();
    let mounted = "mount -t tmpfs -o size=256k none \"$1\"";
    let inside = |then: &str| {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &format!("{mounted} && {then}"), "sh"]).arg(folder.path());
        command
    };
    if !inside("true").output().is_ok_and(|tried| tried.status.success()) {
        let reason = "a small file system cannot be mounted: it takes root and `unshare`";
        return Err(Skip::new(reason));
    }
    let output = inside("shift && exec \"$@\"")
        .arg(env::current_exe().unwrap())
        .args(["--exact", scenario.test(), "--nocapture"])
        .env(DISK, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}");
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{complained}");
    Ok(())
}

/// The ranks go on with the group that they have. When one of them dies the others hear of that too, and
/// have a smaller group as soon as there is room.
fn fill(scenario: Scenario, disk: &Path) -> Result<(), Skip> {
    let ranks = scenario.ranks(4)?;
    let mut trial = Trial::begin(scenario, ranks, 4, |ctx| outlive(ctx, scenario, disk));
    let ballast = disk.join("ballast");
    trial.harm(|_| {
        let error = fs::write(&ballast, vec![1; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    });
    trial.job.tell(FULL, &());
    trial.await_all(&[0, 1, 2, 3], ALONE);
    trial.harm(|job| job.kill(VICTIM));
    trial.await_all(&OTHERS, REFUSED);
    fs::remove_file(&ballast).unwrap();
    trial.job.tell(ROOM, &());
    let end = trial.end();
    end.came_to(VICTIM, &Outcome::Signalled(Signal::KILL.as_raw()))
        .were_each_told(&OTHERS, "PeerLost", &[VICTIM])
        .heard_within(&OTHERS, Duration::ZERO, SOON)
        .went_on(&OTHERS);
    // A thread that carried out calls in the background may hold the store when its process ends; what is
    // left then is for the next one who opens it to remove.
    if scenario.style() == Style::Blocking {
        assert!(!disk.join("meeting").exists(), "the last of them has removed it");
    }
    Ok(())
}

fn outlive(ctx: &Context, scenario: Scenario, disk: &Path) -> Story {
    let (group, terms) = (met_in(disk, ctx).init().unwrap(), Terms::of(scenario.style()));
    work(&group, terms.style, 0..WARM);
    ctx.reach(AT_WORK);
    let () = ctx.told(FULL);
    use_up(&group, ctx.rank());
    work(&group, terms.style, WARM..2 * WARM);
    ctx.reach(ALONE);
    let broken = work_until_it_fails(ctx, &group, terms, 2 * WARM);
    let error = group.shrink().unwrap_err().to_string();
    assert!(error.contains("No space left on device"), "{error}");
    ctx.reach(REFUSED);
    let () = ctx.told(ROOM);
    broken.and_then(group.shrink(), terms.style)
}

/// Writes the smallest things there are until the rest of the file's last page is used up, too.
fn use_up(group: &Group, rank: u32) {
    let key = |at: u32| format!("{rank}{at}");
    let error = (0..10_000).find_map(|at| group.store().set(&key(at), b"").err()).unwrap();
    let error = error.to_string();
    assert!(error.contains("No space left on device"), "{error}");
    assert!(error.contains("nothing was changed"), "{error}");
}

const VICTIM: u32 = 2;
const OTHERS: [u32; 3] = [0, 1, 3];
const DISK: &str = "CONSORT_TEST_DISK";
const FULL: &str = "the disk is full";
const ALONE: &str = "alone";
const REFUSED: &str = "refused";
const ROOM: &str = "there is room";
/// The end of a process is known within milliseconds, but the cores may be somebody else's.
const SOON: Duration = Duration::from_secs(15);
