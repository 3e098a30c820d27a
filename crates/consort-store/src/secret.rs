//! The job's secret: who has it belongs to the job, nobody else gets in.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::error::{Error, Result};

/// The 32 bytes that all processes of one job share.
///
/// As text it is 64 hexadecimal digits. It is never shown by `Debug`, and a file that holds it
/// must be readable by its owner alone.
///
/// ```
/// use consort_store::Secret;
///
/// let secret = Secret::generate()?;
/// assert_eq!(secret.to_hex().parse::<Secret>().unwrap(), secret);
/// assert_eq!(format!("{secret:?}"), "Secret(…)");
/// # Ok::<(), consort_store::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl Secret {
    /// A new one from the system's random numbers.
    ///
    /// # Errors
    /// When the system has none to give.
    pub fn generate() -> Result<Self> {
        random().map(Self)
    }

    /// Reads one from a file.
    ///
    /// # Errors
    /// When the file cannot be read, does not hold 64 hexadecimal digits, or may be read by
    /// others than its owner.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        read(path).map_err(|reason| Error::Secret { path: path.to_owned(), reason })
    }

    /// Writes it to a new file that only its owner can read.
    ///
    /// # Errors
    /// When the file exists already or cannot be written.
    pub fn write_new(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let create = || {
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
            writeln!(file, "{}", self.to_hex())
        };
        create().map_err(|error: io::Error| Error::Secret {
            path: path.to_owned(),
            reason: match error.kind() {
                io::ErrorKind::AlreadyExists => {
                    "the file is there already and is never overwritten; give another name"
                        .to_owned()
                }
                _ => format!("cannot create it: {error}"),
            },
        })
    }

    /// As 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::str::FromStr for Secret {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err("a secret is 64 hexadecimal digits".to_owned());
        }
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).expect("hexadecimal digits are text");
            *byte = u8::from_str_radix(digits, 16).expect("they were checked");
        }
        Ok(Self(bytes))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// 32 bytes nobody can guess.
pub(crate) fn random() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| Error::System {
        doing: "asking the system for random numbers",
        source: io::Error::other(error).into(),
    })?;
    Ok(bytes)
}

fn read(path: &Path) -> Result<Secret, String> {
    let about = path.metadata().map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    let about = file.metadata().map_err(|error| error.to_string())?;
    let owner = rustix::process::geteuid().as_raw();
    if about.is_file() && about.uid() != owner && about.uid() != 0 {
        return Err(format!("it belongs to user {}, who may know it and change it", about.uid()));
    }
    if about.is_file() && about.mode() & 0o077 != 0 {
        let mode = about.mode() & 0o777;
        return Err(format!("others may read it (mode {mode:o}): chmod 600 {}", path.display()));
    }
    let mut text = String::new();
    let longest = 2 * 64;
    file.take(longest).read_to_string(&mut text).map_err(|error| error.to_string())?;
    text.parse()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let secret = Secret::generate().unwrap();
        secret.write_new(&path).unwrap();
        assert_eq!(Secret::from_file(&path).unwrap(), secret);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = Secret::from_file(&path).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn an_existing_file_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        Secret::generate().unwrap().write_new(&path).unwrap();
        assert!(Secret::generate().unwrap().write_new(&path).is_err());
    }

    #[test]
    fn text_that_is_not_a_secret_is_refused() {
        let digits = "ab".repeat(32);
        assert!(digits.parse::<Secret>().is_ok());
        for wrong in [
            "",
            "abc",
            &digits[1..],
            &format!("{digits}00"),
            &digits.replace('a', "g"),
            &"é".repeat(32),
        ] {
            assert!(wrong.parse::<Secret>().is_err(), "{wrong:?}");
        }
    }
}
