//! How a communicator is to be.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::time::Duration;

use super::error::{Error, Result};
use super::version::{BUILT_AGAINST, Version};

/// How a communicator is to be. What is not said is as NCCL has it by default.
///
/// NCCL's structure for this has grown from version to version. It is laid out for the one that is loaded; to
/// set what that version does not have is an [error](Error::NeedsVersion), not silence.
///
/// ```
/// use std::time::Duration;
/// use consort::nccl::{Config, CtaPolicy};
///
/// let config = Config::new()
///     .comm_name("gradients")
///     .max_ctas(16)
///     .cta_policy(CtaPolicy::Efficiency)
///     .timeout(Duration::from_secs(60));
/// # drop(config);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// By the offset of the field.
    integers: BTreeMap<usize, i32>,
    /// By the offset of the field.
    texts: BTreeMap<usize, String>,
    timeout: Option<Duration>,
}

/// What a communicator saves, of a device's processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtaPolicy {
    /// Nothing.
    Default,
    /// As many as it can without losing much speed. Since 2.27.
    Efficiency,
    /// All of them, where copy engines can do the work. Since 2.28.
    Zero,
}

/// Declares the setters of whole numbers and truths.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty, $offset:expr;)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $name(mut self, value: $type) -> Self {
                self.integers.insert($offset, i32::from(value));
                self
            }
        )*
    };
}

impl Config {
    /// As NCCL has it.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long a call may be in progress before it is an [error](Error::Deadline): 10 minutes unless said. It
    /// is for communicators that are not [blocking](Self::blocking), and not NCCL's.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    setters! {
        /// Whether NCCL itself waits in each call, without end. Not unless said, where the version can do otherwise
        /// (2.14).
        blocking: bool, BLOCKING;
        /// How many blocks are in a cluster of a kernel, up to 8. Since 2.17.
        cga_cluster_size: i32, CGA_CLUSTER_SIZE;
        /// How many blocks a kernel has at least. Since 2.17.
        min_ctas: i32, MIN_CTAS;
        /// How many blocks a kernel has at most. Since 2.17.
        max_ctas: i32, MAX_CTAS;
        /// Whether parts of it share its resources. Since 2.18.
        split_share: bool, SPLIT_SHARE;
        /// The class of its traffic, as the network knows it. Since 2.26.
        traffic_class: i32, TRAFFIC_CLASS;
        /// Whether it reduces in the switches. Since 2.27.
        collnet_enable: bool, COLLNET_ENABLE;
        /// Whether what is left of it after a shrink shares its resources. Since 2.27.
        shrink_share: bool, SHRINK_SHARE;
        /// How many blocks a kernel for NVLink SHARP has. Since 2.27.
        nvls_ctas: i32, NVLS_CTAS;
        /// How many channels it has to each peer on the network. Since 2.28.
        channels_per_net_peer: i32, CHANNELS_PER_NET_PEER;
        /// Whether its work is laid out for NVLink. Since 2.28.
        nvlink_centric_sched: bool, NVLINK_CENTRIC_SCHED;
        /// How it is used in CUDA graphs: 0 not at all, 1 by one, 2 by several or beside other work. Since 2.29.
        graph_usage_mode: i32, GRAPH_USAGE_MODE;
        /// How many contexts it has for one-sided operations. Since 2.29.
        rma_contexts: i32, RMA_CONTEXTS;
        /// To how many peers it sends at most. Since 2.30.3.
        max_p2p_peers: i32, MAX_P2P_PEERS;
        /// Whether work in CUDA graphs keeps the order of its streams. Since 2.30.7.
        graph_stream_ordering: i32, GRAPH_STREAM_ORDERING;
    }

    /// What it saves, of a device's processors. Since 2.27.
    #[must_use]
    pub fn cta_policy(mut self, policy: CtaPolicy) -> Self {
        self.integers.insert(CTA_POLICY, policy as i32);
        self
    }

    /// The network to use, by NCCL's name for it: `IB`, `Socket`. Since 2.17.
    #[must_use]
    pub fn net_name(mut self, name: impl Into<String>) -> Self {
        self.texts.insert(NET_NAME, name.into());
        self
    }

    /// What logs call it. Since 2.27.
    #[must_use]
    pub fn comm_name(mut self, name: impl Into<String>) -> Self {
        self.texts.insert(COMM_NAME, name.into());
        self
    }

    /// How long a call may be in progress.
    pub(super) fn limit(&self) -> Duration {
        self.timeout.unwrap_or(TIMEOUT)
    }

    /// Whether it is to block, and whether that was said.
    pub(super) fn is_blocking(&self) -> Option<bool> {
        self.integers.get(&BLOCKING).map(|blocking| *blocking == 1)
    }

    /// Whether it says anything that NCCL has to know.
    pub(super) fn says_something(&self) -> bool {
        !self.integers.is_empty() || !self.texts.is_empty()
    }
}

/// The bytes of NCCL's structure, for one version of it.
#[derive(Debug)]
pub(super) struct Image {
    /// Words, for the structure is aligned like them.
    words: Vec<u64>,
    /// What it points to.
    _texts: Vec<CString>,
}

impl Image {
    /// Lays out a configuration for a version.
    ///
    /// # Errors
    /// When the version does not have what is said, or a text has a zero in it.
    pub(super) fn new(config: &Config, loaded: Version) -> Result<Self> {
        let version = loaded.min(BUILT_AGAINST);
        let mut image = Self { words: vec![0; size(version) / 8], _texts: Vec::new() };
        image.put(0, &(size(version) as u64).to_ne_bytes());
        image.put(8, &MAGIC.to_ne_bytes());
        image.put(12, &(version.code() as u32).to_ne_bytes());
        for field in FIELDS {
            let is_there = field.since <= version;
            if let Some(text) = config.texts.get(&field.offset) {
                field.need(loaded)?;
                image.put_text(field, text)?;
            } else if let Some(value) = config.integers.get(&field.offset) {
                field.need(loaded)?;
                image.put(field.offset, &value.to_ne_bytes());
            } else if is_there && !field.is_text {
                image.put(field.offset, &UNDEFINED.to_ne_bytes());
            }
        }
        if config.integers.get(&CTA_POLICY) == Some(&(CtaPolicy::Zero as i32)) {
            Field {
                name: "the policy CtaPolicy::Zero",
                since: Version::new(2, 28, 0),
                ..FIELDS[0]
            }
            .need(loaded)?;
        }
        Ok(image)
    }

    /// Where it begins.
    pub(super) fn as_mut_ptr(&mut self) -> *mut c_void {
        self.words.as_mut_ptr().cast()
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        all[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn put_text(&mut self, field: Field, text: &str) -> Result<()> {
        let text = CString::new(text).map_err(|_| {
            Error::argument(
                field.name,
                format!("{text:?} has a zero in it, where a text ends for NCCL"),
            )
        })?;
        // Its bytes stay where they are when it moves.
        self.put(field.offset, &(text.as_ptr().expose_provenance() as u64).to_ne_bytes());
        self._texts.push(text);
        Ok(())
    }
}

/// A field of NCCL's structure.
#[derive(Clone, Copy)]
struct Field {
    name: &'static str,
    offset: usize,
    since: Version,
    is_text: bool,
}

impl Field {
    const fn number(name: &'static str, offset: usize, since: (u32, u32, u32)) -> Self {
        let since = Version::new(since.0, since.1, since.2);
        Self { name, offset, since, is_text: false }
    }

    const fn text(name: &'static str, offset: usize, since: (u32, u32, u32)) -> Self {
        Self { is_text: true, ..Self::number(name, offset, since) }
    }

    const fn end(self) -> usize {
        self.offset + if self.is_text { 8 } else { 4 }
    }

    fn need(self, found: Version) -> Result<()> {
        match self.since <= found {
            true => Ok(()),
            false => Err(Error::NeedsVersion { function: self.name, needed: self.since, found }),
        }
    }
}

/// How many bytes the structure has in a version: up to its last field, rounded up to its alignment.
fn size(version: Version) -> usize {
    let there = FIELDS.iter().filter(|field| field.since <= version);
    there.map(|field| field.end()).max().unwrap_or(16).next_multiple_of(8)
}

const BLOCKING: usize = 16;
const CGA_CLUSTER_SIZE: usize = 20;
const MIN_CTAS: usize = 24;
const MAX_CTAS: usize = 28;
const NET_NAME: usize = 32;
const SPLIT_SHARE: usize = 40;
const TRAFFIC_CLASS: usize = 44;
const COMM_NAME: usize = 48;
const COLLNET_ENABLE: usize = 56;
const CTA_POLICY: usize = 60;
const SHRINK_SHARE: usize = 64;
const NVLS_CTAS: usize = 68;
const CHANNELS_PER_NET_PEER: usize = 72;
const NVLINK_CENTRIC_SCHED: usize = 76;
const GRAPH_USAGE_MODE: usize = 80;
const RMA_CONTEXTS: usize = 84;
const MAX_P2P_PEERS: usize = 88;
const GRAPH_STREAM_ORDERING: usize = 92;
/// All that follow the size, the magic number and the version.
const FIELDS: [Field; 18] = [
    Field::number("the field blocking", BLOCKING, (2, 14, 0)),
    Field::number("the field cgaClusterSize", CGA_CLUSTER_SIZE, (2, 17, 0)),
    Field::number("the field minCTAs", MIN_CTAS, (2, 17, 0)),
    Field::number("the field maxCTAs", MAX_CTAS, (2, 17, 0)),
    Field::text("the field netName", NET_NAME, (2, 17, 0)),
    Field::number("the field splitShare", SPLIT_SHARE, (2, 18, 0)),
    Field::number("the field trafficClass", TRAFFIC_CLASS, (2, 26, 0)),
    Field::text("the field commName", COMM_NAME, (2, 27, 0)),
    Field::number("the field collnetEnable", COLLNET_ENABLE, (2, 27, 0)),
    Field::number("the field CTAPolicy", CTA_POLICY, (2, 27, 0)),
    Field::number("the field shrinkShare", SHRINK_SHARE, (2, 27, 0)),
    Field::number("the field nvlsCTAs", NVLS_CTAS, (2, 27, 0)),
    Field::number("the field nChannelsPerNetPeer", CHANNELS_PER_NET_PEER, (2, 28, 0)),
    Field::number("the field nvlinkCentricSched", NVLINK_CENTRIC_SCHED, (2, 28, 0)),
    Field::number("the field graphUsageMode", GRAPH_USAGE_MODE, (2, 29, 0)),
    Field::number("the field numRmaCtx", RMA_CONTEXTS, (2, 29, 0)),
    Field::number("the field maxP2pPeers", MAX_P2P_PEERS, (2, 30, 3)),
    Field::number("the field graphStreamOrdering", GRAPH_STREAM_ORDERING, (2, 30, 7)),
];
/// By which NCCL knows that the structure was filled in.
const MAGIC: u32 = 0xcafe_beef;
/// What stands for a number that was not said. A text that was not said is null.
const UNDEFINED: i32 = i32::MIN;
/// As for groups.
const TIMEOUT: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(config: &Config, version: Version) -> Vec<u8> {
        let image = Image::new(config, version).unwrap();
        bytemuck::cast_slice(&image.words).to_vec()
    }

    fn number(bytes: &[u8], at: usize) -> i32 {
        i32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn every_version_has_its_size() {
        for (version, size) in [
            ((2, 14, 3), 24),
            ((2, 16, 5), 24),
            ((2, 17, 1), 40),
            ((2, 18, 1), 48),
            ((2, 25, 1), 48),
            ((2, 26, 2), 48),
            ((2, 27, 3), 72),
            ((2, 28, 3), 80),
            ((2, 29, 2), 88),
            ((2, 29, 7), 88),
            ((2, 30, 3), 96),
            ((2, 30, 7), 96),
            ((2, 32, 3), 96),
        ] {
            let version = Version::new(version.0, version.1, version.2);
            let bytes = bytes(&Config::new(), version);
            assert_eq!(bytes.len(), size, "{version}");
            assert_eq!(bytes[..8], (size as u64).to_ne_bytes(), "{version}");
            assert_eq!(bytes[8..12], 0xcafe_beef_u32.to_ne_bytes());
            // A later library takes it for what it is.
            assert_eq!(number(&bytes, 12), version.min(BUILT_AGAINST).code());
        }
    }

    #[test]
    fn every_field_is_where_the_header_has_it() {
        #[repr(C)]
        struct Header {
            size: usize,
            magic: u32,
            version: u32,
            blocking: i32,
            cga_cluster_size: i32,
            min_ctas: i32,
            max_ctas: i32,
            net_name: *const u8,
            split_share: i32,
            traffic_class: i32,
            comm_name: *const u8,
            collnet_enable: i32,
            cta_policy: i32,
            shrink_share: i32,
            nvls_ctas: i32,
            n_channels_per_net_peer: i32,
            nvlink_centric_sched: i32,
            graph_usage_mode: i32,
            num_rma_ctx: i32,
            max_p2p_peers: i32,
            graph_stream_ordering: i32,
        }
        use std::mem::offset_of;
        let offsets = [
            offset_of!(Header, blocking),
            offset_of!(Header, cga_cluster_size),
            offset_of!(Header, min_ctas),
            offset_of!(Header, max_ctas),
            offset_of!(Header, net_name),
            offset_of!(Header, split_share),
            offset_of!(Header, traffic_class),
            offset_of!(Header, comm_name),
            offset_of!(Header, collnet_enable),
            offset_of!(Header, cta_policy),
            offset_of!(Header, shrink_share),
            offset_of!(Header, nvls_ctas),
            offset_of!(Header, n_channels_per_net_peer),
            offset_of!(Header, nvlink_centric_sched),
            offset_of!(Header, graph_usage_mode),
            offset_of!(Header, num_rma_ctx),
            offset_of!(Header, max_p2p_peers),
            offset_of!(Header, graph_stream_ordering),
        ];
        assert_eq!(FIELDS.map(|field| field.offset), offsets);
        assert_eq!(size(BUILT_AGAINST), size_of::<Header>());
    }

    #[test]
    fn what_is_not_said_is_undefined_and_what_is_said_is_there() {
        let untouched = bytes(&Config::new(), BUILT_AGAINST);
        for field in FIELDS {
            match field.is_text {
                true => assert_eq!(untouched[field.offset..field.end()], [0; 8], "{}", field.name),
                false => assert_eq!(number(&untouched, field.offset), i32::MIN, "{}", field.name),
            }
        }
        let config = Config::new().blocking(false).max_ctas(7).shrink_share(true).max_p2p_peers(3);
        let set = bytes(&config, BUILT_AGAINST);
        assert_eq!([16, 28, 64, 88].map(|at| number(&set, at)), [0, 7, 1, 3]);
        let image = Image::new(&Config::new().comm_name("seven"), BUILT_AGAINST).unwrap();
        assert_eq!(image._texts[0].as_c_str(), c"seven");
        assert_eq!(image.words[6], image._texts[0].as_ptr().addr() as u64);
    }

    #[test]
    fn what_a_version_does_not_have_is_refused() {
        let old = Version::new(2, 26, 5);
        for config in [
            Config::new().comm_name("x"),
            Config::new().graph_stream_ordering(1),
            Config::new().cta_policy(CtaPolicy::Efficiency),
        ] {
            let error = Image::new(&config, old).unwrap_err();
            assert!(matches!(error, Error::NeedsVersion { found, .. } if found == old), "{error}");
        }
        let zero = Config::new().cta_policy(CtaPolicy::Zero);
        assert!(Image::new(&zero, Version::new(2, 27, 7)).is_err());
        assert!(Image::new(&zero, Version::new(2, 28, 3)).is_ok());
        assert!(Image::new(&Config::new().traffic_class(1), old).is_ok());
        assert!(Image::new(&Config::new().net_name("a\0b"), old).is_err());
    }
}
