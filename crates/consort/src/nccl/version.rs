//! Which NCCL.

use std::fmt;

/// A version of NCCL. Later ones are greater.
///
/// ```
/// use consort::nccl::Version;
///
/// let version = Version::from_code(23007).expect("2.30.7");
/// assert_eq!(version, Version::new(2, 30, 7));
/// assert_eq!(version.to_string(), "2.30.7");
/// assert_eq!(version.code(), 23007);
/// // Up to 2.8 the codes were shorter.
/// assert_eq!(Version::from_code(2804), Some(Version::new(2, 8, 4)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// What is before the first point.
    pub major: u32,
    /// What is between them.
    pub minor: u32,
    /// What is after the second.
    pub patch: u32,
}

impl Version {
    /// A version by its three numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// The version that `ncclGetVersion` calls so, in either of its two ways: thousands up to 2.8, ten thousands
    /// since. None for a number that no version has.
    pub const fn from_code(code: i32) -> Option<Self> {
        if code < 1000 {
            return None;
        }
        let code = code as u32;
        let major = if code < 10_000 { code / 1000 } else { code / 10_000 };
        let rest = if code < 10_000 { code % 1000 } else { code % 10_000 };
        Some(Self::new(major, rest / 100, rest % 100))
    }

    /// What `ncclGetVersion` calls it.
    pub const fn code(self) -> i32 {
        let base = if self.major <= 2 && self.minor <= 8 { 1000 } else { 10_000 };
        (self.major * base + self.minor * 100 + self.patch) as i32
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The version whose functions and structures this crate knows. Any other can be loaded: an older one lacks
/// something, a newer one is used as if it were this.
pub const BUILT_AGAINST: Version = Version::new(2, 30, 7);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_number_versions_are_read_and_written() {
        for (code, version) in [
            (2305, Version::new(2, 3, 5)),
            (2708, Version::new(2, 7, 8)),
            (2804, Version::new(2, 8, 4)),
            (20_908, Version::new(2, 9, 8)),
            (21_003, Version::new(2, 10, 3)),
            (22_907, Version::new(2, 29, 7)),
            (30_000, Version::new(3, 0, 0)),
        ] {
            assert_eq!(Version::from_code(code), Some(version), "{code}");
            assert_eq!(version.code(), code);
        }
    }

    #[test]
    fn what_is_no_version_is_none() {
        for code in [i32::MIN, -1, 0, 7, 999] {
            assert_eq!(Version::from_code(code), None, "{code}");
        }
    }

    #[test]
    fn later_versions_are_greater() {
        assert!(Version::new(2, 9, 8) < Version::new(2, 10, 0));
        assert!(Version::new(2, 28, 3) < Version::new(2, 28, 7));
    }
}
