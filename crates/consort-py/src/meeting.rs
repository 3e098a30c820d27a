//! How the ranks of a Python program meet.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use consort::{Builder, Dtype, Secret};
use consort_sys::host::HostId;
use consort_sys::net::choose;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::errors::{mistake, raise, raise_of_store};
use crate::group::{Group, duration};

/// The identity of this host: the same text on two ranks exactly when they can share memory.
#[pyfunction]
pub(crate) fn host() -> PyResult<String> {
    let here = HostId::here().map_err(|error| raise(&consort::Error::Host(error.into())))?;
    Ok(here.id().to_owned())
}

/// The address of this host that leads to another one's `host`, or of an interface by its name.
#[pyfunction]
#[pyo3(signature = (peer=None, interface=None))]
pub(crate) fn address(peer: Option<&str>, interface: Option<&str>) -> PyResult<String> {
    let peer: Option<SocketAddr> = match peer {
        None => None,
        Some(peer) => Some(resolve(peer)?),
    };
    let choice = choose(peer, interface).map_err(|error| raise(&error.into()))?;
    Ok(choice.address.to_string())
}

fn resolve(host: &str) -> PyResult<SocketAddr> {
    let found = (host, 1).to_socket_addrs().ok().and_then(|mut found| found.next());
    found.ok_or_else(|| mistake(format!("there is no host {host:?}")))
}

/// The names of the types of numbers, each at the place of its code.
#[pyfunction]
pub(crate) fn dtypes() -> Vec<&'static str> {
    Dtype::ALL.map(Dtype::name).to_vec()
}

/// Where rank 0 lets the others in: a socket that listens, at a port that the system has chosen, and
/// the secret that they have to know.
#[pyclass(frozen, module = "consort._core")]
pub(crate) struct Door {
    listener: Mutex<Option<TcpListener>>,
    /// Where it is.
    #[pyo3(get)]
    address: String,
    /// What opens it.
    #[pyo3(get)]
    secret: String,
}

#[pymethods]
impl Door {
    #[new]
    fn new(host: &str) -> PyResult<Self> {
        let listener = TcpListener::bind((host, 0)).map_err(|error| {
            PyOSError::new_err(format!("cannot listen for the other ranks at {host}: {error}"))
        })?;
        let address = format!("tcp://{}", listener.local_addr()?);
        let secret = Secret::generate().map_err(|error| raise_of_store(&error))?.to_hex();
        Ok(Self { listener: Mutex::new(Some(listener)), address, secret })
    }
}

/// Meets the other ranks of a job.
///
/// They meet at the `address`, which the `secret` opens, or where the environment says. What of the
/// options is `None`, the environment says, too.
#[pyfunction]
#[pyo3(signature = (*, rank, world, job, timeout, address=None, secret=None, door=None, options))]
#[expect(clippy::too_many_arguments, reason = "each is named where it is given")]
pub(crate) fn meet(
    py: Python<'_>,
    rank: u32,
    world: u32,
    job: String,
    timeout: f64,
    address: Option<&str>,
    secret: Option<&str>,
    door: Option<&Door>,
    options: Options,
) -> PyResult<Group> {
    let builder = Builder::for_rank(rank, world).map_err(|error| raise(&error))?;
    let mut builder = options.applied_to(builder)?.job(job).timeout(duration(timeout)?);
    if let Some(address) = address {
        builder = builder.address(address).map_err(|error| raise(&error))?;
    }
    if let Some(secret) = secret {
        let secret = secret.parse::<Secret>().map_err(mistake)?;
        builder = builder.secret(secret);
    }
    let listener =
        door.and_then(|door| door.listener.lock().unwrap_or_else(PoisonError::into_inner).take());
    if let Some(listener) = listener {
        builder = builder.listener(listener);
    }
    let met = py.detach(|| builder.init());
    met.map(Group::new).map_err(|error| raise(&error))
}

/// What a program may say of how its ranks work together.
#[derive(FromPyObject)]
pub(crate) struct Options {
    transport: Option<String>,
    interface: Option<String>,
    encrypt: Option<bool>,
    integrity: Option<bool>,
    verify_results: Option<u32>,
    algorithm: Option<String>,
    streams: Option<u8>,
    port: Option<u16>,
    liveness: Option<f64>,
    warn_after: Option<f64>,
    trace_dir: Option<PathBuf>,
    debug: Option<String>,
}

impl Options {
    /// These instead of what the environment says.
    fn applied_to(self, mut builder: Builder) -> PyResult<Builder> {
        if let Some(transport) = self.transport {
            let transport = transport.parse().map_err(|error| mistake(format!("{error}")))?;
            builder = builder.transport(transport);
        }
        if let Some(interface) = self.interface {
            builder = builder.interface(interface);
        }
        if let Some(encrypt) = self.encrypt {
            builder = builder.encrypt(encrypt);
        }
        if let Some(integrity) = self.integrity {
            builder = builder.integrity(integrity);
        }
        if let Some(every) = self.verify_results {
            builder = builder.verify_results(every);
        }
        if let Some(algorithm) = self.algorithm {
            builder = builder.algorithm(algorithm);
        }
        if let Some(streams) = self.streams {
            builder = builder.streams(streams);
        }
        if let Some(port) = self.port {
            builder = builder.data_port(port);
        }
        if let Some(liveness) = self.liveness {
            builder = builder.liveness(duration(liveness)?);
        }
        if let Some(seconds) = self.warn_after {
            let after = if seconds.is_finite() { Some(duration(seconds)?) } else { None };
            builder = builder.warn_after(after);
        }
        if let Some(folder) = self.trace_dir {
            builder = builder.trace_dir(folder);
        }
        if let Some(level) = self.debug {
            builder = builder.debug(level.parse().map_err(|error| mistake(format!("{error}")))?);
        }
        Ok(builder)
    }
}
