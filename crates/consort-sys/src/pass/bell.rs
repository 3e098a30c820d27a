//! Finding out whether another process of this machine may be reached, before anything depends on it.

use std::os::fd::AsFd;

use rustix::io::Errno;

use super::credentials::Credentials;
use super::meeting::check_user;
use super::{Door, PassError, address_of, socket};

/// A door that is never opened: whoever can ring there could come in.
#[derive(Debug)]
pub struct Bell(Door);

/// Why a bell cannot be hung, or rung.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bar {
    /// It is not permitted, and will not be.
    Forbidden(String),
    /// Something is missing, be it the other process. That may be another time, or an error.
    Lack(String),
}

impl Bell {
    /// Hangs one, with a random name.
    ///
    /// # Errors
    /// When this process may have no Unix sockets, or lacks something.
    pub fn hang() -> Result<Self, Bar> {
        Door::open().map(Self).map_err(|error| match error {
            PassError::Door { source, .. } => bar(source, error.to_string()),
            _ => Bar::Lack(error.to_string()),
        })
    }

    /// What the others need to know to ring it.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Tries whether another process's bell can be rung, and whether that is of the same user.
    ///
    /// # Errors
    /// When it cannot be, or is not.
    pub fn ring(name: &str) -> Result<(), Bar> {
        let failed = |error: Errno| bar(error, format!("it cannot be reached: {error}"));
        let address = address_of(name).map_err(failed)?;
        let socket = socket().map_err(failed)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => {}
            // So many ring that it has no place for one more: it can be reached.
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
        let who = Credentials::of_peer(socket.as_fd());
        let who = who.map_err(|error| Bar::Lack(error.to_string()))?;
        let ours = rustix::process::geteuid().as_raw();
        check_user(who, ours).map_err(|why| Bar::Forbidden(why.to_string()))
    }
}

fn bar(error: Errno, text: String) -> Bar {
    match error {
        Errno::PERM | Errno::ACCESS | Errno::NOSYS | Errno::AFNOSUPPORT | Errno::OPNOTSUPP => {
            Bar::Forbidden(text)
        }
        _ => Bar::Lack(text),
    }
}
