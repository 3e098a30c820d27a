//! What whoever watches over jobs can ask this launcher for (`--metrics`): how its job goes, and what
//! each rank of this host has done.
//!
//! The ranks' sums are in their records, which outlive them, and the launcher's own in a [`Tally`]. Both
//! are looked at when somebody asks; nothing is kept up to date in between. What is asked and answered is
//! decided without sockets (`request`, `families`, `exposition`); `server` moves the bytes.

mod exposition;
mod families;
mod request;
mod server;
mod tally;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use consort::trace::RankTrace;

pub(crate) use self::tally::{Facts, Tally};
use super::error::RunError;

/// Where metrics can be had: `[ADDRESS:]PORT`, on this host alone unless an address is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetricsAddress(SocketAddr);

impl FromStr for MetricsAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let here = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let found = text.parse().map(here).or_else(|_| text.parse());
        found.map(Self).map_err(|_| {
            "give a port of this host, or one of its addresses and a port: 9400, 0.0.0.0:9400 or \
             [::1]:9400"
                .to_owned()
        })
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Begins to answer, for as long as this process runs. Says where: the system chooses port 0.
///
/// # Errors
/// When nobody can listen there.
pub(crate) fn serve(at: MetricsAddress, tally: &Tally) -> Result<SocketAddr, RunError> {
    let failed = |error| RunError::Metrics { address: at.0, error };
    let listener = TcpListener::bind(at.0).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let desk = Desk { tally: tally.clone(), last: Mutex::default() };
    server::start(listener, move || desk.page()).map_err(failed)?;
    Ok(address)
}

/// Where answers are written.
#[derive(Debug)]
struct Desk {
    tally: Tally,
    last: Mutex<Option<(Instant, Arc<str>)>>,
}

impl Desk {
    /// What there is to say. Those who ask in the same moment get the same: however many they are, the
    /// records are not read all the time.
    fn page(&self) -> Arc<str> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((written, page)) if written.elapsed() < SAME_MOMENT => page.clone(),
            _ => {
                let page: Arc<str> = self.write().into();
                *last = Some((Instant::now(), page.clone()));
                page
            }
        }
    }

    fn write(&self) -> String {
        let facts = self.tally.facts();
        let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos() as u64;
        families::write(&facts, &records(&facts), now)
    }
}

/// What the ranks of the last round have recorded, as far as it can be read.
fn records(facts: &Facts) -> Vec<RankTrace> {
    let files = facts.folder.as_deref().map(consort::trace::read_folder);
    let files = files.and_then(Result::ok).unwrap_or_default();
    let ranks = files.into_iter().filter_map(|(_, trace)| trace.ok());
    ranks.filter(|rank| rank.epoch == facts.round).collect()
}

const SAME_MOMENT: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_for_this_host_alone() {
        let parse = |text: &str| text.parse::<MetricsAddress>().map(|it| it.to_string());
        assert_eq!(parse("9400"), Ok("127.0.0.1:9400".to_owned()));
        assert_eq!(parse("0.0.0.0:9400"), Ok("0.0.0.0:9400".to_owned()));
        assert_eq!(parse("[::1]:0"), Ok("[::1]:0".to_owned()));
        for wrong in ["", "90000", "host:1", "::1:9400", ":9400", "127.0.0.1"] {
            assert!(parse(wrong).unwrap_err().contains("0.0.0.0:9400"), "{wrong:?}");
        }
    }

    #[test]
    fn whoever_asks_in_the_same_moment_gets_the_same() {
        let desk = Desk { tally: Tally::default(), last: Mutex::default() };
        let far = Instant::now() + Duration::from_secs(3600);
        let page = desk.page();
        *desk.last.lock().unwrap() = Some((far, page.clone()));
        desk.tally.note(|facts| facts.failures += 1);
        assert_eq!(desk.page(), page);
        *desk.last.lock().unwrap() = None;
        assert!(desk.page().contains("\nconsort_rank_failures_total 1\n"));
    }
}
