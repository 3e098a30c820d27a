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
        if before.as_ref() == Some(&role) {
            return;
        }
        match (before, role) {
            // It may have a standby itself by now.
            (Some(Role::Follows { .. }), Role::Serves { .. }) => notice(format_args!(
                "the host that held the meeting is lost: its standby on this host goes on, at \
                 tcp://{address}"
            )),
            (_, Role::Serves { standby: Some(standby) }) => {
                tracing::info!("the store has a standby at {standby}");
            }
            (Some(Role::Serves { standby: Some(standby) }), Role::Serves { standby: None }) => {
                notice(format_args!(
                    "the store's standby at {standby} has ended: the store is on this host alone \
                     until another host takes its place"
                ));
            }
            (_, Role::Follows { ready: true }) => {
                notice(format_args!("this host holds a standby of the store, at {address}"));
            }
            (_, Role::Aside { reason }) => {
                notice(format_args!("the store on this host does not serve any more: {reason}"));
            }
            _ => {}
        }
    }
}

fn lock(copy: &Copy) -> MutexGuard<'_, Option<Server>> {
    copy.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a change may go unnoticed.
const PAUSE: Duration = Duration::from_millis(250);
