//! Where the launchers of a job meet: the job's store, and who holds it.

use std::env;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use consort_store::{
    Deadline, Dial, Error as StoreError, FileStore, Place, Secret, Server, Store, Swap, TcpStore,
};
use consort_sys::net::{Choice, choose, interfaces};

use super::error::RunError;
use super::event::Inbox;
use super::job::Job;
use super::notice::notice;
use super::secret::SecretFile;
use super::settings::Settings;
use super::signals::asks_to_end;
use super::standby::{Post, Standby};

/// The job's store as this launcher reaches it.
#[derive(Debug)]
pub(crate) struct Venue {
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    /// Where it was to be found at first.
    url: String,
    /// The address under which the other hosts reach this one.
    pub(crate) address: IpAddr,
    /// Where the ranks read the job's secret.
    pub(crate) secret: SecretFile,
    /// If it is held here: it ends with this launcher.
    server: Option<Arc<Server>>,
    /// If it is to outlive the host that holds it.
    standby: Option<Standby>,
}

/// What came of trying to get there.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// We are there.
    There(Box<Venue>),
    /// A signal asked us to end on the way.
    Interrupted(i32),
}

impl Arrival {
    fn with(mut self, standby: Option<Standby>) -> Self {
        if let Self::There(venue) = &mut self {
            venue.standby = standby;
        }
        self
    }
}

impl Venue {
    /// Goes to the place that the settings name: holds the store if the place is on this host and
    /// nobody holds it yet, and connects to it otherwise.
    pub(crate) fn reach(job: &Job, inbox: &mut Inbox) -> Result<Arrival, RunError> {
        match job.settings.meeting.as_ref().map(|meeting| &meeting.place) {
            None => Self::on_this_host(&job.settings),
            Some(Place::File(path)) => Self::in_file(&job.settings, path),
            Some(Place::Tcp { host, port }) => Self::over_tcp(job, host, *port, inbox),
        }
    }

    /// Where the ranks find the store.
    pub(crate) fn url(&self) -> String {
        match &self.standby {
            Some(standby) => format!("tcp://{}", standby.store().place()),
            None => self.url.clone(),
        }
    }

    /// Whether the store ends with this launcher.
    pub(crate) fn holds_store(&self) -> bool {
        match &self.standby {
            Some(standby) => standby.holds_alone(),
            None => self.server.is_some(),
        }
    }

    /// Whether others may yet need what this launcher holds.
    pub(crate) fn is_needed(&self) -> bool {
        self.server.is_some() || self.standby.as_ref().is_some_and(Standby::holds_copy)
    }

    /// A job that has this host to itself: nobody outside can even connect.
    fn on_this_host(settings: &Settings) -> Result<Arrival, RunError> {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let secret = match &settings.secret_file {
            Some(path) => Secret::from_file(path)?,
            None => Secret::generate()?,
        };
        let listener = Server::listen(SocketAddr::new(address, 0))?;
        let server = Arc::new(Server::bearing(silence(settings), listener, &secret)?);
        let dial = Dial::new(server.address(), &secret).bearing(silence(settings));
        let store = TcpStore::dial(dial, Deadline::after(PATIENCE))?;
        let url = format!("tcp://{}", server.address());
        Self::arrive(Arc::new(store), url, address, &secret, settings, Some(server))
    }

    /// The file's owner is the job's: who can open it may know the secret.
    fn in_file(settings: &Settings, path: &Path) -> Result<Arrival, RunError> {
        let store: Arc<dyn Store> = Arc::new(FileStore::open(path)?);
        let mine = Secret::generate()?.to_hex();
        let secret = match store.compare_set(SECRET, None, mine.as_bytes())? {
            Swap::Differs(first) => String::from_utf8_lossy(&first).into_owned(),
            _ => mine,
        };
        let secret: Secret = secret.parse().map_err(|reason| StoreError::File {
            path: path.to_owned(),
            reason: format!("the job's secret in it is damaged: {reason}"),
        })?;
        let url = Place::File(path.to_owned()).to_string();
        let address = some_address()?;
        Self::arrive(store, url, address, &secret, settings, None)
    }

    fn over_tcp(job: &Job, host: &str, port: u16, inbox: &mut Inbox) -> Result<Arrival, RunError> {
        let listener = listen(host, port, &job.settings)?;
        let secret = match shared_secret(&job.settings, listener.is_some(), host, inbox)? {
            Ok(secret) => secret,
            Err(signal) => return Ok(Arrival::Interrupted(signal)),
        };
        let server = match listener {
            Some(listener) => {
                Some(Arc::new(Server::bearing(silence(&job.settings), listener, &secret)?))
            }
            None => None,
        };
        let place = Place::Tcp { host: host.to_owned(), port };
        let endpoint = place.endpoint().expect("a server has an endpoint");
        let name = format!("launcher on {}", job.host);
        let dial = Dial::new(endpoint, &secret).named(name).bearing(silence(&job.settings));
        let store = match connect(&dial, &place, &job.settings, inbox)? {
            Ok(store) => store.with_patience(PATIENCE),
            Err(signal) => return Ok(Arrival::Interrupted(signal)),
        };
        let wanted = env::var(INTERFACE).ok();
        let Choice { interface, address, reason, .. } =
            choose(Some(store.peer_address()), wanted.as_deref())?;
        tracing::info!("using {interface} ({address}): {reason}");
        let standby = match job.settings.standby {
            true => Some(Standby::start(Post {
                store: store.clone(),
                secret: secret.clone(),
                address,
                silence: silence(&job.settings),
                first: server.clone(),
            })?),
            false => None,
        };
        let arrival = Self::arrive(
            Arc::new(store),
            place.to_string(),
            address,
            &secret,
            &job.settings,
            server,
        )?;
        Ok(arrival.with(standby))
    }

    fn arrive(
        store: Arc<dyn Store>,
        url: String,
        address: IpAddr,
        secret: &Secret,
        settings: &Settings,
        server: Option<Arc<Server>>,
    ) -> Result<Arrival, RunError> {
        let secret = match &settings.secret_file {
            Some(path) => SecretFile::given(path),
            None => SecretFile::in_memory(secret.to_hex().as_bytes()),
        };
        let secret =
            secret.map_err(|error| RunError::System { doing: "keep the job's secret", error })?;
        let venue = Self { store, url, address, secret, server, standby: None };
        Ok(Arrival::There(Box::new(venue)))
    }
}

/// How long a connection may be silent, if longer than the store's own limit.
fn silence(settings: &Settings) -> Duration {
    settings.liveness.unwrap_or_default()
}

/// Tries until the deadline or a signal. A far host takes its time, so the trying is done in a
/// thread of its own, and signals are looked for meanwhile.
fn connect(
    dial: &Dial,
    place: &Place,
    settings: &Settings,
    inbox: &mut Inbox,
) -> Result<Result<TcpStore, i32>, RunError> {
    let until = Deadline::after(settings.join_timeout);
    let (sender, receiver) = mpsc::channel();
    let dialled = dial.clone();
    thread::spawn(move || sender.send(TcpStore::dial(dialled, until)));
    let mut steps = 0;
    loop {
        match receiver.recv_timeout(STEP) {
            Ok(connected) => return Ok(Ok(connected?)),
            Err(_) => steps += 1,
        }
        if let Some(signal) = inbox.take_signal().filter(|signal| asks_to_end(*signal)) {
            return Ok(Err(signal));
        }
        if steps == STEPS_UNTIL_WORD {
            notice(format_args!("waiting for the host that holds the meeting, {place}"));
        }
    }
}

/// Takes the port if the place is on this host and nobody has it yet.
fn listen(host: &str, port: u16, settings: &Settings) -> Result<Option<TcpListener>, RunError> {
    let named = host.parse::<IpAddr>().is_err() && host != "localhost";
    let addresses = (host, port).to_socket_addrs().unwrap_or_else(|error| {
        // It may be known later, as the host that holds the meeting is when that has started.
        notice(format_args!("{host} cannot be looked up so far: {error}"));
        Vec::new().into_iter()
    });
    for address in addresses {
        if named && address.ip().is_loopback() && settings.nodes.max.get() > 1 {
            return Err(RunError::Loopback { host: host.to_owned(), address: address.ip() });
        }
        match Server::listen(address) {
            Ok(listener) => return Ok(Some(listener)),
            Err(StoreError::Listen { source, .. }) if is_elsewhere(&source) => {}
            Err(other) => return Err(other.into()),
        }
    }
    Ok(None)
}

/// The port is somebody's already, or the address another host's.
fn is_elsewhere(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
}

/// The secret in the file that was given. The host that holds the meeting makes one if the file
/// is not there yet; the others wait for somebody to bring it, or for a signal.
fn shared_secret(
    settings: &Settings,
    holds: bool,
    holder: &str,
    inbox: &mut Inbox,
) -> Result<Result<Secret, i32>, RunError> {
    let Some(path) = &settings.secret_file else { return Ok(Ok(Secret::generate()?)) };
    if holds && !path.exists() {
        let secret = Secret::generate()?;
        secret.write_new(path)?;
        let path = path.display();
        notice(format_args!(
            "made the job's secret: copy {path} to the other hosts and give it there, too, \
             with --secret-file"
        ));
        return Ok(Ok(secret));
    }
    let until = Deadline::after(settings.join_timeout);
    let missing = || RunError::NoSecret { path: path.clone(), holder: holder.to_owned() };
    let mut told = false;
    // On a file system that the hosts share, it may have been made but not written yet.
    while !path.metadata().is_ok_and(|about| about.len() > 0) {
        if !mem::replace(&mut told, true) {
            notice(format_args!("{}; waiting for it", missing()));
        }
        if let Some(signal) = inbox.take_signal().filter(|signal| asks_to_end(*signal)) {
            return Ok(Err(signal));
        }
        if until.has_passed() {
            return Err(missing());
        }
        thread::sleep(LOOK_AGAIN);
    }
    Ok(Ok(Secret::from_file(path)?))
}

/// An address of this host that others may reach, where the place does not tell which.
fn some_address() -> Result<IpAddr, RunError> {
    if let Ok(wanted) = env::var(INTERFACE) {
        return Ok(choose(None, Some(&wanted))?.address);
    }
    let all = interfaces()
        .map_err(|error| RunError::System { doing: "list the network interfaces", error })?;
    let outward = all.iter().filter(|interface| interface.up && !interface.loopback);
    let mut addresses = outward.flat_map(|interface| &interface.addresses);
    let address = addresses.find(|address| address.is_ipv4()).copied();
    Ok(address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)))
}

const INTERFACE: &str = "CONSORT_INTERFACE";
const SECRET: &str = "secret";
/// How long the store may take to answer before it is asked again.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a signal may have to wait.
const STEP: Duration = Duration::from_millis(100);
const STEPS_UNTIL_WORD: u32 = 5;
const LOOK_AGAIN: Duration = Duration::from_millis(100);
