//! NCCL's parameters.

use std::ffi::CString;

use super::error::{Error, Result};
use super::library::Library;

/// # Parameters
impl Library {
    /// The value of one of NCCL's parameters, such as `NCCL_DEBUG`, as it is in use. Since 2.30.4.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn parameter(self, key: &str) -> Result<String> {
        let function = "ncclParamGetParameter";
        let name = CString::new(key)
            .map_err(|_| Error::argument(function, format!("{key:?} has a zero in it")))?;
        let (_, value) = self.succeed(function, self.table().parameter(&name), None)?;
        Ok(value.unwrap_or_default())
    }

    /// The names of all parameters that NCCL tells of. Since 2.30.4.
    ///
    /// # Errors
    /// When NCCL fails.
    pub fn parameters(self) -> Result<Vec<String>> {
        let function = "ncclParamGetAllParameterKeys";
        self.succeed(function, self.table().parameters(), None).map(|(_, keys)| keys)
    }
}
