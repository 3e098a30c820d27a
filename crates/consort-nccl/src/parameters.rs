//! What can be set from outside: variables of the environment.

use std::ffi::CString;
use std::str::FromStr;

use consort_sys::origin::PerProcess;

use crate::failure::{Failure, Result};
use crate::raw::Handle;

/// A variable that means something to this library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameter(usize);

impl Parameter {
    /// The one of this name.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn named(key: &str) -> Result<Self> {
        let place = keys().iter().position(|name| name.as_bytes() == key.as_bytes());
        place.map(Self).ok_or_else(|| {
            let all: Vec<_> = keys().iter().map(|key| key.to_string_lossy()).collect();
            Failure::argument(format!("key is {key:?}, and there are {}", all.join(", ")))
        })
    }

    /// The one that C calls so.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn find(handle: Handle) -> Result<Self> {
        let place = handle.number().checked_sub(FIRST).map(|rest| rest / STEP);
        match place {
            Some(place) if place < keys().len() && Self(place).handle() == handle => {
                Ok(Self(place))
            }
            _ => Err(Failure::argument(format!(
                "h is {:#x}, which ncclParamBind has not given",
                handle.number()
            ))),
        }
    }

    /// What C calls it.
    pub(crate) fn handle(self) -> Handle {
        Handle::new(FIRST + self.0 * STEP)
    }

    /// Its name.
    pub(crate) fn key(self) -> &'static str {
        keys()[self.0].to_str().unwrap_or_default()
    }

    /// What it is set to; nothing, if it is not.
    pub(crate) fn value(self) -> String {
        std::env::var(self.key()).unwrap_or_default()
    }

    /// What it is set to, as a number.
    ///
    /// # Errors
    /// When it is not set, or to something else.
    pub(crate) fn number<T: FromStr>(self) -> Result<T> {
        let (key, value) = (self.key(), self.value());
        value.trim().parse().map_err(|_| match value.is_empty() {
            true => Failure::argument(format!("{key} is not set")),
            false => Failure::argument(format!("{key} is {value:?}, which is no such number")),
        })
    }
}

/// Their names, as C reads them.
pub(crate) fn keys() -> &'static [CString] {
    KEYS.here()
}

fn all_keys() -> Vec<CString> {
    let names = NCCLS.into_iter().chain(consort::VARIABLES);
    names.filter_map(|name| CString::new(name).ok()).collect()
}

static KEYS: PerProcess<Vec<CString>> = PerProcess::new(all_keys);

/// Those of NCCL's that mean something here.
const NCCLS: [&str; 3] = ["NCCL_COMM_ID", "NCCL_SOCKET_IFNAME", crate::window::P2P_DISABLE];
/// Nothing else has such a number.
const FIRST: usize = 0x7800_0000_0000;
const STEP: usize = 0x10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_found_by_its_name_and_by_its_handle() {
        for key in keys() {
            let parameter = Parameter::named(key.to_str().unwrap()).unwrap();
            assert_eq!(Parameter::find(parameter.handle()), Ok(parameter));
        }
        assert!(Parameter::named("NCCL_NONSENSE").unwrap_err().text.contains("NCCL_COMM_ID"));
        for number in [0, FIRST - STEP, FIRST + 1, FIRST + keys().len() * STEP] {
            assert!(Parameter::find(Handle::new(number)).is_err());
        }
    }
}
