//! A store that outlives the host that holds it: one of the other launchers holds a standby.
//!
//! Every launcher but the one that holds the store offers to, whenever there is none; the store
//! takes the first that comes. So when a standby has taken over, or has ended, another host follows.

use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use consort_store::{Deadline, Dial, Result as StoreResult, Role, Secret, Server, TcpStore};

use super::error::RunError;
use super::notice::notice;

/// Looks after this host's part in keeping the store, in a thread of its own, until it is dropped.
#[derive(Debug)]
pub(crate) struct Standby {
    post: Post,
    copy: Copy,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The server on this host that follows the store, or has taken over.
type Copy = Arc<Mutex<Option<Server>>>;

/// Where a launcher stands.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    /// The job's store as this launcher reaches it.
    pub(crate) store: TcpStore,
    /// The job's secret.
    pub(crate) secret: Secret,
    /// Where other hosts reach this one.
    pub(crate) address: IpAddr,
    /// How long a host may be silent.
    pub(crate) silence: Duration,
    /// The store's server, if it is on this host.
    pub(crate) first: Option<Arc<Server>>,
}

impl Standby {
    /// Starts to look after it.
    pub(crate) fn start(post: Post) -> Result<Self, RunError> {
        let copy = Copy::default();
        let (stop, stopped) = mpsc::channel::<()>();
        let mut watch = Watch { post: post.clone(), copy: copy.clone(), said: None };
        let look = move || {
            while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                watch.look();
            }
        };
        let thread = thread::Builder::new()
            .name("standby".to_owned())
            .spawn(look)
            .map_err(|error| RunError::System { doing: "look after the store", error })?;
        Ok(Self { post, copy, stop: Some(stop), thread: Some(thread) })
    }

    pub(crate) fn store(&self) -> &TcpStore {
        &self.post.store
    }

    /// Whether the store ends with this launcher.
    pub(crate) fn holds_alone(&self) -> bool {
        self.roles().contains(&Role::Serves { standby: None })
    }

    /// Whether there is a copy of the store on this host that serves or may have to.
    pub(crate) fn holds_copy(&self) -> bool {
        let useful = |role: &Role| matches!(role, Role::Serves { .. } | Role::Follows { .. });
        self.roles().iter().any(useful)
    }

    fn roles(&self) -> Vec<Role> {
        let first = self.post.first.as_ref().map(|server| server.role());
        first.into_iter().chain(lock(&self.copy).as_ref().map(Server::role)).collect()
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread works with.
struct Watch {
    post: Post,
    copy: Copy,
    /// What the user was told of last.
    said: Option<(Role, SocketAddr)>,
}

impl Watch {
    fn look(&mut self) {
        let first = self.post.first.as_ref().map(|server| (server.role(), server.address()));
        if let Some((role @ Role::Serves { .. }, address)) = first {
            return self.say(role, address);
        }
        let copy = lock(&self.copy).as_ref().map(|server| (server.role(), server.address()));
        match copy {
            Some((Role::Aside { .. }, _)) => *lock(&self.copy) = None,
            Some((role, address)) => self.say(role, address),
            None => {
                if let Some((role, address)) = first {
                    self.say(role, address);
                }
                if self.post.store.standby().is_none() {
                    self.offer();
                }
            }
        }
    }

    /// Offers a standby to the store. If it has one it says no, and next time this host knows that.
    fn offer(&self) {
        match self.follow() {
            Ok(server) => *lock(&self.copy) = Some(server),
            Err(error) => tracing::debug!(%error, "no standby of the store on this host"),
        }
    }

    fn follow(&self) -> StoreResult<Server> {
        let Post { store, secret, address, silence, .. } = &self.post;
        let listener = Server::listen(SocketAddr::new(*address, 0))?;
        let dial = Dial::new(store.place(), secret).named("standby").bearing(*silence);
        Server::follow(*silence, listener, &dial, Deadline::after(PAUSE))
    }

    /// Tells the user what has changed.
    fn say(&mut self, role: Role, address: SocketAddr) {
        let before = self.said.replace((role.clone(), address)).map(|(role, _)| role);
        if let Some(news) = news(before.as_ref(), &role, address) {
            notice(news);
        }
    }
}

/// What the user hears of a store on this host that does something else than when somebody looked last. Much may have
/// happened since: a standby may have ended, and another have come.
fn news(before: Option<&Role>, now: &Role, address: SocketAddr) -> Option<String> {
    match (before, now) {
        (Some(before), now) if before == now => None,
        (Some(Role::Follows { .. }), Role::Serves { .. }) => Some(format!(
            "the host that held the meeting is lost: its standby on this host goes on, at \
             tcp://{address}"
        )),
        (Some(Role::Serves { standby: Some(ended) }), Role::Serves { standby }) => {
            Some(match standby {
                Some(next) => {
                    format!("the store's standby at {ended} has ended: now it is at {next}")
                }
                None => format!(
                    "the store's standby at {ended} has ended: the store is on this host alone until \
                 another host takes its place"
                ),
            })
        }
        (_, Role::Follows { ready: true }) => {
            Some(format!("this host holds a standby of the store, at {address}"))
        }
        (_, Role::Aside { reason }) => {
            Some(format!("the store on this host does not serve any more: {reason}"))
        }
        _ => None,
    }
}

fn lock(copy: &Copy) -> MutexGuard<'_, Option<Server>> {
    copy.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a change may go unnoticed.
const PAUSE: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    /// What is heard of a store that was looked at in each of these states.
    fn heard(states: &[Role]) -> Vec<String> {
        let befores = [None].into_iter().chain(states.iter().map(Some));
        befores.zip(states).filter_map(|(before, now)| news(before, now, at(1))).collect()
    }

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn served(standby: Option<u16>) -> Role {
        Role::Serves { standby: standby.map(at) }
    }

    #[test]
    fn a_standby_that_has_ended_is_told_of_though_another_has_come_already() {
        let ended = "the store's standby at 192.0.2.1:2 has ended: ";
        let alone = heard(&[served(None), served(Some(2)), served(None), served(Some(3))]);
        assert!(matches!(&alone[..], [one] if one.starts_with(ended) && one.contains("alone")));
        let replaced = heard(&[served(Some(2)), served(Some(2)), served(Some(3))]);
        assert_eq!(replaced, [format!("{ended}now it is at 192.0.2.1:3")]);
    }

    #[test]
    fn a_standby_says_that_it_is_one_and_that_it_goes_on_once_each() {
        let (begins, follows) = (Role::Follows { ready: false }, Role::Follows { ready: true });
        for standby in [None, Some(2)] {
            let states = [begins.clone(), follows.clone(), follows.clone(), served(standby)];
            let heard = heard(&states);
            assert!(matches!(&heard[..], [holds, goes_on] if holds.contains("holds a standby")
                && goes_on.contains("goes on, at tcp://192.0.2.1:1")));
        }
    }
}
