//! What was said about the options, in the program or in the environment.

use std::num::{NonZeroU8, NonZeroU32};

use consort_plan::algo;

use super::{Engine, Options, Transport};

/// What was said; `None` where nothing was. `0` and `auto` ask for the default, but for the port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub(crate) engine: Option<Engine>,
    pub(crate) transport: Option<Transport>,
    pub(crate) encrypt: Option<bool>,
    pub(crate) integrity: Option<bool>,
    pub(crate) verify_every: Option<u32>,
    pub(crate) algorithm: Option<String>,
    pub(crate) streams: Option<u8>,
    pub(crate) port: Option<u16>,
}

impl Wishes {
    /// Takes what a variable of the environment says, if it is one of [`OPTIONS`].
    ///
    /// # Errors
    /// When it has no such value; says which it has.
    pub(crate) fn take(&mut self, variable: &str, value: &str) -> Result<(), String> {
        match variable {
            "CONSORT_BACKEND" => {
                self.engine = Some(value.parse().map_err(|error| format!("{error}"))?);
            }
            "CONSORT_TRANSPORT" => {
                self.transport = Some(value.parse().map_err(|error| format!("{error}"))?);
            }
            "CONSORT_ENCRYPT" => self.encrypt = Some(read_switch(value)?),
            "CONSORT_INTEGRITY" => self.integrity = Some(read_switch(value)?),
            "CONSORT_VERIFY" => {
                self.verify_every = Some(value.parse().map_err(
                    |_| "give every how many calls to compare: 1 to 4294967295, or 0 for never",
                )?);
            }
            "CONSORT_ALGORITHM" => self.algorithm = Some(check_algorithm(value)?.to_owned()),
            "CONSORT_STREAMS" => {
                self.streams = Some(check_streams(value.parse().unwrap_or(u8::MAX))?);
            }
            "CONSORT_PORT" => {
                self.port = Some(value.parse().map_err(
                    |_| "give a port from 1 to 65535, or 0 for one that the system chooses",
                )?);
            }
            _ => {}
        }
        Ok(())
    }

    /// These, and the others' where these say nothing.
    pub(crate) fn or(self, others: Self) -> Self {
        Self {
            engine: self.engine.or(others.engine),
            transport: self.transport.or(others.transport),
            encrypt: self.encrypt.or(others.encrypt),
            integrity: self.integrity.or(others.integrity),
            verify_every: self.verify_every.or(others.verify_every),
            algorithm: self.algorithm.or(others.algorithm),
            streams: self.streams.or(others.streams),
            port: self.port.or(others.port),
        }
    }

    /// What is wrong with what the program said, one line each.
    pub(crate) fn check(&self, wrong: &mut Vec<String>) {
        if let Some(Err(why)) = self.algorithm.as_deref().map(check_algorithm) {
            wrong.push(format!("Builder::algorithm: {why}"));
        }
        if let Some(Err(why)) = self.streams.map(check_streams) {
            wrong.push(format!("Builder::streams: {why}"));
        }
    }

    /// What follows from them.
    pub(crate) fn settle(self) -> Options {
        Options {
            engine: self.engine.unwrap_or_default(),
            transport: self.transport.unwrap_or_default(),
            encrypt: self.encrypt.unwrap_or_default(),
            integrity: self.integrity.unwrap_or_default(),
            verify_every: self.verify_every.and_then(NonZeroU32::new),
            algorithm: self.algorithm.filter(|name| name != AUTO),
            streams: self.streams.and_then(NonZeroU8::new),
            port: self.port,
        }
    }
}

fn read_switch(value: &str) -> Result<bool, String> {
    match value {
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => Err("give on or off (or true or false, 1 or 0)".to_owned()),
    }
}

fn check_algorithm(name: &str) -> Result<&str, String> {
    if name == AUTO || algo::NAMES.contains(&name) {
        Ok(name)
    } else {
        Err(format!("no algorithm {name:?}; choose {AUTO}, {}", algo::NAMES.join(", ")))
    }
}

fn check_streams(count: u8) -> Result<u8, String> {
    let most = Options::MOST_STREAMS;
    if count <= most {
        Ok(count)
    } else {
        Err(format!("give 1 to {most} connections, or 0 to find the number by measuring"))
    }
}

/// The variables that say how data travels.
pub(crate) const OPTIONS: [&str; 8] = [
    "CONSORT_BACKEND",
    "CONSORT_TRANSPORT",
    "CONSORT_ENCRYPT",
    "CONSORT_INTEGRITY",
    "CONSORT_VERIFY",
    "CONSORT_ALGORITHM",
    "CONSORT_STREAMS",
    "CONSORT_PORT",
];
const AUTO: &str = "auto";
