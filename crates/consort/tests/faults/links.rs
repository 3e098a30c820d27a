//! Hosts that lose each other: for good, for a moment, in halves.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use consort_testkit::{Context, Hosts, Job, Outcome, Skip};

use crate::invitation::invited;
use crate::life::{AT_WORK, LONG, Story, Terms, live_in, work};
use crate::numbers::{Style, round};
use crate::remains::Remains;
use crate::scenario::{Scenario, faults};
use crate::verdict::{End, Trial};

faults! { [tcp mixed] [blocking asynchronous scoped]
    the_link_of_a_host_is_cut
    the_link_of_a_host_flaps
}
faults! { [tcp mixed] [asynchronous] the_network_is_parted_into_halves }

fn the_link_of_a_host_is_cut(scenario: Scenario) -> Result<(), Skip> {
    let each = scenario.ranks_of_a_host();
    let hosts = WORLD / each;
    let mut trial =
        Trial::begin(scenario, scenario.hosts(hosts)?, WORLD, |ctx| live_here(ctx, scenario));
    trial.harm(|job| {
        let hosts = hosts_of(job);
        hosts.cut(hosts.count() - 1);
        assert!(!reaches_the_store(hosts, hosts.count() - 1));
    });
    let (near, far): (Vec<u32>, Vec<u32>) = (0..WORLD).partition(|rank| rank / each < hosts - 1);
    assert_parted(&trial.end(), &near, &far);
    Ok(())
}

fn the_network_is_parted_into_halves(scenario: Scenario) -> Result<(), Skip> {
    let world = 4 * scenario.ranks_of_a_host();
    let mut trial =
        Trial::begin(scenario, scenario.hosts(4)?, world, |ctx| live_here(ctx, scenario));
    trial.harm(|job| {
        let hosts = hosts_of(job);
        assert!(reaches_the_store(hosts, 2));
        hosts.part(&[2, 3]);
        assert!(reaches_the_store(hosts, 1));
        assert!(!reaches_the_store(hosts, 2) && !reaches_the_store(hosts, 3));
    });
    let (near, far): (Vec<u32>, Vec<u32>) = (0..world).partition(|&rank| rank < world / 2);
    assert_parted(&trial.end(), &near, &far);
    Ok(())
}

/// Those with the store go on; the others learn that they cannot, and why.
fn assert_parted(end: &End, near: &[u32], far: &[u32]) {
    end.were_told(near, "PeerLost", far)
        .heard_within(near, Duration::ZERO, IDLE + SLACK)
        .went_on(near);
    end.were_each_told(far, "PeerLost", near)
        .heard_within(far, Duration::ZERO, IDLE + SLACK)
        .were_refused(far, "store");
}

/// A life among ranks that meet where rank 0 is, and that do not wait long for a silent host.
fn live_here(ctx: &Context, scenario: Scenario) -> Story {
    let group = invited(ctx).timeout(LONG).liveness(LIVENESS).init().unwrap();
    live_in(ctx, &group, Terms::of(scenario.style()))
}

/// A link that is down for less than a host may be silent is not noticed but by how long calls take.
fn the_link_of_a_host_flaps(scenario: Scenario) -> Result<(), Skip> {
    let style = scenario.style();
    let world = 2 * scenario.ranks_of_a_host();
    let mut job = scenario.hosts(2)?.start(|ctx| work_through_it(ctx, style));
    (0..world).for_each(|rank| job.await_point(rank, AT_WORK));
    let remains = Remains::of(&job, world);
    for flap in 0..FLAPS {
        let hosts = hosts_of(&job);
        hosts.cut(1);
        assert!(!reaches_the_store(hosts, 1));
        hosts.mend(1);
        // The longer nothing is acknowledged, the longer the kernel waits before it tries again.
        job.tell(&mended(flap), &());
        job.await_point(0, &mended(flap));
    }
    job.tell(ENOUGH, &());
    let done = |outcome| match outcome {
        Outcome::Done(story) => story,
        outcome => panic!("{outcome:?}"),
    };
    let stories: Vec<(Duration, String)> = job.wait().into_iter().map(done).collect();
    remains.are_none(job);
    let longest = stories.iter().map(|(longest, _)| *longest).max().unwrap();
    assert!(longest > A_MOMENT / 2, "no call took more than {longest:?}");
    assert!(stories.iter().all(|(_, digest)| *digest == stories[0].1), "{stories:?}");
    println!("{} nothing, the longest round took {longest:.1?}", scenario.name());
    Ok(())
}

/// Works until all have been told that it is enough. How long the longest round took, and what all have to
/// have the same of.
fn work_through_it(ctx: &Context, style: Style) -> (Duration, String) {
    let group = invited(ctx).timeout(LONG).init().unwrap();
    work(&group, style, 0..4);
    ctx.reach(AT_WORK);
    let mut digest = blake3::Hasher::new();
    let (mut longest, mut flap) = (Duration::ZERO, 0);
    for number in 0.. {
        let begun = Instant::now();
        round(&group, style, number, &mut digest).unwrap();
        longest = longest.max(begun.elapsed());
        if ctx.has_been_told(&mended(flap)) {
            ctx.reach(&mended(flap));
            flap += 1;
        }
        let mut is_enough = [u8::from(ctx.rank() == 0 && ctx.has_been_told(ENOUGH))];
        group.broadcast(&mut is_enough, 0).unwrap();
        if is_enough == [1] {
            break;
        }
    }
    (longest, digest.finalize().to_string())
}

/// What is told when a link is up again, and said when that was of use.
fn mended(flap: u32) -> String {
    format!("mended {flap}")
}

fn hosts_of<T>(job: &Job<T>) -> &Hosts {
    job.hosts().expect("they are on hosts")
}

/// Whether somebody on a host can connect to where the ranks have met.
fn reaches_the_store(hosts: &Hosts, from: usize) -> bool {
    let store = SocketAddr::new(hosts.host(0).address(), 29_500);
    hosts.host(from).run(|| TcpStream::connect_timeout(&store, A_MOMENT)).is_ok()
}

const WORLD: u32 = 4;
const LIVENESS: Duration = Duration::from_secs(2);
/// A host to which nothing is on its way is given that long.
const IDLE: Duration = Duration::from_secs(15);
/// How long a link is down before it is known that nothing comes through.
const A_MOMENT: Duration = Duration::from_millis(300);
/// Others use the cores.
const SLACK: Duration = Duration::from_secs(20);
const FLAPS: u32 = 4;
const ENOUGH: &str = "enough";
