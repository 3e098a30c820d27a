//! What ranks ask and what they are told, in the words of PMI-1: a line each, of parts `name=value`.
//!
//! A program may write anything into its socket. Nothing here takes more memory than a line may have, and what
//! cannot be understood ends the conversation: a rank that hears nothing more fails instead of waiting.

use std::fmt;

/// What a rank asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Whether this version of the protocol is spoken here.
    Init { version: u32 },
    /// How long things may be.
    Maxes,
    /// Which of several programs of a job it is.
    Appnum,
    /// What the job's values are kept under.
    Name,
    /// How many processes there could be.
    Universe,
    /// To keep a value for all.
    Put { key: String, value: String },
    /// A value.
    Get { key: String },
    /// To be told when all have asked this.
    Barrier,
    /// Leave to go.
    Finalize,
    /// To be ended, and the job with it.
    Abort { code: i32 },
    /// Something that is not to be had here.
    Other(Denied),
}

/// What is not to be had here: processes that were not there from the beginning, and names for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    Spawn,
    Publish,
    Lookup,
    Unpublish,
}

/// What a rank is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer<'a> {
    Init { is_spoken: bool },
    Maxes,
    Appnum,
    Name(&'a str),
    Universe(u32),
    Put { is_kept: bool },
    Value(Option<&'a str>),
    BarrierOut,
    Finalized,
    Denied(Denied),
}

impl fmt::Display for Answer<'_> {
    /// A line, without its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Init { is_spoken } => write!(
                f,
                "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc={}",
                code(*is_spoken)
            ),
            Self::Maxes => write!(
                f,
                "cmd=maxes kvsname_max={LONGEST_NAME} keylen_max={LONGEST_KEY} \
                 vallen_max={LONGEST_VALUE} rc=0"
            ),
            Self::Appnum => f.write_str("cmd=appnum appnum=0 rc=0"),
            Self::Name(name) => write!(f, "cmd=my_kvsname kvsname={name} rc=0"),
            Self::Universe(size) => write!(f, "cmd=universe_size size={size} rc=0"),
            Self::Put { is_kept: true } => f.write_str("cmd=put_result rc=0 msg=success"),
            Self::Put { is_kept: false } => f.write_str("cmd=put_result rc=-1 msg=cannot_be_kept"),
            Self::Value(Some(value)) => {
                write!(f, "cmd=get_result rc=0 msg=success value={value}")
            }
            Self::Value(None) => f.write_str("cmd=get_result rc=-1 msg=not_found value=unknown"),
            Self::BarrierOut => f.write_str("cmd=barrier_out rc=0"),
            Self::Finalized => f.write_str("cmd=finalize_ack rc=0"),
            Self::Denied(denied) => {
                write!(f, "cmd={} rc=-1 msg=not_supported_by_consort_run", denied.answer())
            }
        }
    }
}

impl Denied {
    /// What the answer is called.
    fn answer(self) -> &'static str {
        match self {
            Self::Spawn => "spawn_result",
            Self::Publish => "publish_result",
            Self::Lookup => "lookup_result",
            Self::Unpublish => "unpublish_result",
        }
    }
}

/// Reads what a rank asks from what comes of it, in whatever pieces.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    bytes: Vec<u8>,
    /// The lines of a request for more processes, as far as they matter.
    spawn: Option<Spawn>,
}

/// A request of several lines; of those for several programs the last is answered.
#[derive(Debug, Default)]
struct Spawn {
    of: u32,
    so_far: u32,
}

/// Something came that is not of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Senseless(pub(crate) String);

impl Reader {
    /// Takes what has come.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// What is asked next, if all of it has come.
    ///
    /// # Errors
    /// When it makes no sense: nothing after that does.
    pub(crate) fn take(&mut self) -> Result<Option<Ask>, Senseless> {
        while let Some(end) = self.bytes.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let line = &line[..end];
            if line.len() > LONGEST_LINE {
                return Err(Senseless(excerpt(line)));
            }
            let text = str::from_utf8(line).map_err(|_| Senseless(excerpt(line)))?;
            if let Some(ask) = self.read(text)? {
                return Ok(Some(ask));
            }
        }
        match self.bytes.len() > LONGEST_LINE {
            true => Err(Senseless(excerpt(&self.bytes))),
            false => Ok(None),
        }
    }

    fn read(&mut self, line: &str) -> Result<Option<Ask>, Senseless> {
        let Some(spawn) = &mut self.spawn else {
            if line.trim_end() == "mcmd=spawn" {
                self.spawn = Some(Spawn::default());
                return Ok(None);
            }
            return ask(line).map(Some).ok_or_else(|| Senseless(excerpt(line.as_bytes())));
        };
        let number = |text: &str| text.trim_end().parse().unwrap_or(0);
        if let Some(of) = line.strip_prefix("totspawns=") {
            spawn.of = number(of);
        } else if let Some(so_far) = line.strip_prefix("spawnssofar=") {
            spawn.so_far = number(so_far);
        } else if line.trim_end() == "endcmd" {
            let is_last = spawn.so_far >= spawn.of;
            self.spawn = None;
            return Ok(is_last.then_some(Ask::Other(Denied::Spawn)));
        }
        Ok(None)
    }
}

/// What a line asks.
fn ask(line: &str) -> Option<Ask> {
    let line = line.trim_end_matches(['\r', ' ']);
    // A value is the last part, and may be of several words.
    let (head, value) = match line.split_once(" value=") {
        Some((head, value)) => (head, Some(value)),
        None => (line, None),
    };
    let part = |name: &str| {
        let parts = head.split(' ').filter_map(|part| part.split_once('='));
        parts.into_iter().find(|(it, _)| *it == name).map(|(_, value)| value)
    };
    let key =
        || part("key").filter(|key| (1..=LONGEST_KEY).contains(&key.len())).map(str::to_owned);
    Some(match part("cmd")? {
        "init" => Ask::Init { version: part("pmi_version")?.parse().ok()? },
        "get_maxes" => Ask::Maxes,
        "get_appnum" => Ask::Appnum,
        "get_my_kvsname" => Ask::Name,
        "get_universe_size" => Ask::Universe,
        "put" => {
            let value = value.filter(|value| value.len() <= LONGEST_VALUE)?;
            Ask::Put { key: key()?, value: value.to_owned() }
        }
        "get" => Ask::Get { key: key()? },
        "barrier_in" => Ask::Barrier,
        "finalize" => Ask::Finalize,
        "abort" => {
            Ask::Abort { code: part("exitcode").and_then(|it| it.parse().ok()).unwrap_or(1) }
        }
        "publish_name" => Ask::Other(Denied::Publish),
        "lookup_name" => Ask::Other(Denied::Lookup),
        "unpublish_name" => Ask::Other(Denied::Unpublish),
        _ => return None,
    })
}

fn code(is_well: bool) -> i32 {
    if is_well { 0 } else { -1 }
}

fn excerpt(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(EXCERPT)]);
    text.escape_default().to_string()
}

/// What the usual launcher of MPICH allows, which its library is therefore known to be content with.
const LONGEST_NAME: usize = 256;
const LONGEST_KEY: usize = 64;
pub(crate) const LONGEST_VALUE: usize = 1024;
/// More than any line needs that is understood.
const LONGEST_LINE: usize = 4096;
const EXCERPT: usize = 80;
