//! What a program asks of a communicator.

use std::ffi::{c_char, c_int, c_uint};
use std::mem::offset_of;
use std::ptr;

use crate::failure::{Failure, Result};
use crate::raw::{Grown, Plain, Text};

/// What a program asks of a communicator: `ncclConfig_t`, as in NCCL 2.30.
///
/// Of these only `blocking` and `commName` mean something here; the others are looked at, so that what NCCL
/// refuses is refused, and have no effect.
///
/// ```
/// use consort_nccl::Config;
///
/// let config = Config { blocking: 0, ..Config::INITIAL };
/// assert_eq!((config.magic, config.version), (0xcafe_beef, 23007));
/// ```
#[allow(missing_docs, non_snake_case)]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Config {
    pub size: usize,
    pub magic: c_uint,
    pub version: c_uint,
    pub blocking: c_int,
    pub cgaClusterSize: c_int,
    pub minCTAs: c_int,
    pub maxCTAs: c_int,
    pub netName: *const c_char,
    pub splitShare: c_int,
    pub trafficClass: c_int,
    pub commName: *const c_char,
    pub collnetEnable: c_int,
    pub CTAPolicy: c_int,
    pub shrinkShare: c_int,
    pub nvlsCTAs: c_int,
    pub nChannelsPerNetPeer: c_int,
    pub nvlinkCentricSched: c_int,
    pub graphUsageMode: c_int,
    pub numRmaCtx: c_int,
    pub maxP2pPeers: c_int,
    pub graphStreamOrdering: c_int,
}

// SAFETY: it is numbers and pointers only, and the size comes first.
#[allow(unsafe_code)]
unsafe impl Plain for Config {}

impl Config {
    /// As `NCCL_CONFIG_INITIALIZER` has it: nothing is asked for.
    pub const INITIAL: Self = Self {
        size: size_of::<Self>(),
        magic: MAGIC,
        version: VERSION as c_uint,
        blocking: UNDEFINED,
        cgaClusterSize: UNDEFINED,
        minCTAs: UNDEFINED,
        maxCTAs: UNDEFINED,
        netName: ptr::null(),
        splitShare: UNDEFINED,
        trafficClass: UNDEFINED,
        commName: ptr::null(),
        collnetEnable: UNDEFINED,
        CTAPolicy: UNDEFINED,
        shrinkShare: UNDEFINED,
        nvlsCTAs: UNDEFINED,
        nChannelsPerNetPeer: UNDEFINED,
        nvlinkCentricSched: UNDEFINED,
        graphUsageMode: UNDEFINED,
        numRmaCtx: UNDEFINED,
        maxP2pPeers: UNDEFINED,
        graphStreamOrdering: UNDEFINED,
    };

    /// # Errors
    /// When a value is none that NCCL takes.
    fn check(&self) -> Result<()> {
        let ranges = [
            ("blocking", self.blocking, 0..=1),
            ("cgaClusterSize", self.cgaClusterSize, 0..=8),
            ("minCTAs", self.minCTAs, 1..=c_int::MAX),
            ("maxCTAs", self.maxCTAs, 1..=c_int::MAX),
            ("splitShare", self.splitShare, 0..=1),
            ("collnetEnable", self.collnetEnable, 0..=1),
            ("CTAPolicy", self.CTAPolicy, 0..=3),
            ("shrinkShare", self.shrinkShare, 0..=1),
            ("nvlsCTAs", self.nvlsCTAs, 1..=c_int::MAX),
            ("nChannelsPerNetPeer", self.nChannelsPerNetPeer, 1..=c_int::MAX),
            ("nvlinkCentricSched", self.nvlinkCentricSched, 0..=1),
            ("graphUsageMode", self.graphUsageMode, 0..=2),
            ("numRmaCtx", self.numRmaCtx, 1..=c_int::MAX),
            ("maxP2pPeers", self.maxP2pPeers, 1..=c_int::MAX),
            ("graphStreamOrdering", self.graphStreamOrdering, 0..=1),
        ];
        for (name, value, range) in ranges {
            if value != UNDEFINED && !range.contains(&value) {
                let what = format!("config.{name} is {value}, which is not within {range:?}");
                return Err(Failure::argument(what));
            }
        }
        let (least, most) = (self.minCTAs, self.maxCTAs);
        match least != UNDEFINED && most != UNDEFINED && least > most {
            true => Err(Failure::argument(format!(
                "config.minCTAs is {least}, which is more than config.maxCTAs, {most}"
            ))),
            false => Ok(()),
        }
    }
}

/// What becomes of a [`Config`].
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Whether calls that make or end the communicator wait until that is done.
    pub(crate) blocking: bool,
    /// What the program calls it.
    pub(crate) name: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { blocking: true, name: None }
    }
}

impl Settings {
    /// What a program asks for; what it does not, as in `parent`.
    ///
    /// # Errors
    /// When it was not begun with the initializer, or has a value that makes no sense.
    pub(crate) fn read(config: &Grown<Config>, parent: &Self) -> Result<Self> {
        if config.is_null() {
            return Ok(parent.clone());
        }
        let config = config.read("config", FIRST, Config::INITIAL)?;
        if config.magic != MAGIC {
            return Err(Failure::argument(
                "config was not begun with NCCL_CONFIG_INITIALIZER: its magic is wrong",
            ));
        }
        config.check()?;
        let blocking =
            if config.blocking == UNDEFINED { parent.blocking } else { config.blocking == 1 };
        // One that ends before the name is whole has none.
        let has_name =
            config.size >= offset_of!(Config, collnetEnable) && !config.commName.is_null();
        let name = match !has_name {
            true => None,
            false => {
                // SAFETY: the program's own, whole and not null, so it ends with a zero, as whoever made the `Grown`
                // promised.
                #[allow(unsafe_code)]
                let text = unsafe { Text::from_raw(config.commName) };
                Some(text.read("config.commName")?)
            }
        };
        Ok(Self { blocking, name })
    }
}

/// How long a group of calls would take: `ncclSimInfo_t`.
#[allow(missing_docs, non_snake_case)]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SimInfo {
    pub size: usize,
    pub magic: c_uint,
    pub version: c_uint,
    pub estimatedTime: f32,
}

// SAFETY: it is numbers only, and the size comes first.
#[allow(unsafe_code)]
unsafe impl Plain for SimInfo {}

impl SimInfo {
    /// As `NCCL_SIM_INFO_INITIALIZER` has it.
    pub const INITIAL: Self = Self {
        size: size_of::<Self>(),
        magic: SIMULATION,
        version: VERSION as c_uint,
        estimatedTime: -1.0,
    };

    /// Tells how many seconds it would take.
    ///
    /// # Errors
    /// When there is nowhere to tell it.
    pub(crate) fn tell(info: &Grown<Self>, seconds: f64) -> Result<()> {
        let mut told = info.read("simInfo", size_of::<Self>(), Self::INITIAL)?;
        if told.magic != SIMULATION {
            return Err(Failure::argument(
                "simInfo was not begun with NCCL_SIM_INFO_INITIALIZER: its magic is wrong",
            ));
        }
        // As NCCL has it, in microseconds.
        told.estimatedTime = (seconds * 1e6) as f32;
        info.write("simInfo", size_of::<Self>(), told)
    }
}

/// The version of NCCL whose API this is: 2.30.7.
pub(crate) const VERSION: c_int = 23007;
/// What begins a configuration.
const MAGIC: c_uint = 0xcafe_beef;
/// What begins the result of a simulation.
const SIMULATION: c_uint = 0x7468_5283;
/// What the program does not say.
const UNDEFINED: c_int = c_int::MIN;
/// How much of a configuration the first version had that knew of any: up to `blocking`.
const FIRST: usize = offset_of!(Config, cgaClusterSize);

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(unsafe_code)]
    fn read(config: &mut Config) -> Result<Settings> {
        // SAFETY: it lives until this returns, and names in these tests are literals.
        Settings::read(&unsafe { Grown::from_raw(config) }, &Settings::default())
    }

    #[test]
    fn an_old_program_says_less_and_a_new_one_more() {
        let mut config = Config { blocking: 0, ..Config::INITIAL };
        assert!(!read(&mut config).unwrap().blocking);
        // What lies behind the end is somebody else's.
        config = Config { size: FIRST, maxCTAs: -7, ..config };
        assert!(!read(&mut config).unwrap().blocking);
        config = Config { commName: c"mine".as_ptr(), ..Config::INITIAL };
        let settings = read(&mut config).unwrap();
        assert_eq!((settings.blocking, settings.name.as_deref()), (true, Some("mine")));
    }

    #[test]
    fn what_makes_no_sense_is_told_by_its_name() {
        let cases = [
            (Config { magic: 1, ..Config::INITIAL }, "NCCL_CONFIG_INITIALIZER"),
            (Config { size: 8, ..Config::INITIAL }, "8 bytes"),
            (Config { blocking: 2, ..Config::INITIAL }, "config.blocking is 2"),
            (Config { minCTAs: 4, maxCTAs: 2, ..Config::INITIAL }, "config.maxCTAs, 2"),
        ];
        for (mut config, words) in cases {
            let text = read(&mut config).unwrap_err().text;
            assert!(text.contains(words), "{text}");
        }
    }
}
