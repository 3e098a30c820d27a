//! Parts whose sizes only sender and receiver know: gather, scatter and all_to_all with uneven parts.
//!
//! Every rank has a stream of bytes to, and one from, each rank that it exchanges something with.
//! A stream is cut into messages of [`MESSAGE`] bytes, which travel one after the other. If there are several,
//! the first one begins with the length of all, so that two ranks who mean different lengths find
//! out: either one of their messages has another length, or that number differs.

use consort_sys::view::{Source, Target};

use super::links::{Label, Links, Moved};
use crate::call::Call;
use crate::error::Result;

/// The streams of a call.
#[derive(Debug)]
pub(super) struct Streams<'a> {
    peers: Vec<Peer<'a>>,
}

#[derive(Debug)]
struct Peer<'a> {
    rank: usize,
    outgoing: Option<Outgoing<'a>>,
    incoming: Option<Incoming<'a>>,
}

#[derive(Debug)]
struct Outgoing<'a> {
    data: Source<'a>,
    at: At,
}

#[derive(Debug)]
struct Incoming<'a> {
    data: Target<'a>,
    at: At,
    /// What the sender says is the length of all.
    length: [u8; 8],
    /// Where messages land if their place is that of something which has to be sent first.
    landing: Option<Vec<u8>>,
    has_landed: bool,
}

/// How far a stream is.
#[derive(Clone, Copy, Debug, Default)]
struct At {
    message: usize,
    done: usize,
}

impl<'a> Streams<'a> {
    /// The streams of a call with uneven parts. What a rank has for itself is copied now.
    pub(super) fn new(call: &Call<'a>, me: usize, world: usize) -> Self {
        let others = || (1..world).map(move |distance| (me + distance) % world);
        let peers = match *call {
            Call::Gather { root, input, outputs, .. } => match outputs {
                Some(outputs) => {
                    keep_own(input, outputs.part(me, world));
                    others().map(|it| Peer::new(it, None, Some(outputs.part(it, world)))).collect()
                }
                None => vec![Peer::new(root.index(), Some(input), None)],
            },
            Call::Scatter { root, inputs, output, .. } => match inputs {
                Some(inputs) => {
                    keep_own(inputs.part(me, world), output);
                    others().map(|it| Peer::new(it, Some(inputs.part(it, world)), None)).collect()
                }
                None => vec![Peer::new(root.index(), None, Some(output))],
            },
            Call::AllToAll { inputs, outputs, .. } => {
                keep_own(inputs.part(me, world), outputs.part(me, world));
                let both = |it| (Some(inputs.part(it, world)), Some(outputs.part(it, world)));
                others().map(|it| Peer::new(it, both(it).0, both(it).1)).collect()
            }
            _ => panic!("the sizes of all other calls are known to every rank"),
        };
        Self { peers }
    }

    /// Whether they have ended, and whether they went anywhere.
    pub(super) fn go_on<L: Links + ?Sized>(&mut self, links: &mut L) -> Result<(bool, bool)> {
        let (mut is_done, mut has_moved) = (true, false);
        for peer in &mut self.peers {
            has_moved |= peer.go_on(links)?;
            is_done &= peer.is_done();
        }
        Ok((is_done, has_moved))
    }

    /// With whom something is outstanding.
    pub(super) fn awaits(&self) -> impl Iterator<Item = usize> {
        self.peers.iter().filter(|it| !it.is_done()).map(|it| it.rank)
    }
}

impl<'a> Peer<'a> {
    fn new(rank: usize, out: Option<Source<'a>>, into: Option<Target<'a>>) -> Self {
        let is_same = out.is_some_and(|out| into.is_some_and(|into| is_same(out, into)));
        let outgoing = out.map(|data| Outgoing { data, at: At::default() });
        let incoming = into.map(|data| Incoming {
            data,
            at: At::default(),
            length: [0; 8],
            landing: is_same.then(|| vec![0; data.len().min(MESSAGE)]),
            has_landed: false,
        });
        Self { rank, outgoing, incoming }
    }

    fn is_done(&self) -> bool {
        let all_sent =
            self.outgoing.as_ref().is_none_or(|it| it.at.message == count(it.data.len()));
        let all_come =
            self.incoming.as_ref().is_none_or(|it| it.at.message == count(it.data.len()));
        all_sent && all_come
    }

    fn go_on<L: Links + ?Sized>(&mut self, links: &mut L) -> Result<bool> {
        let mut has_moved = false;
        loop {
            let mut moved = false;
            if let Some(outgoing) = &mut self.outgoing {
                moved |= outgoing.go_on(self.rank, links)?;
            }
            if let Some(incoming) = &mut self.incoming {
                let sent = self.outgoing.as_ref().map_or(0, |it| it.at.message);
                moved |= incoming.go_on(self.rank, sent, links)?;
            }
            if !moved {
                return Ok(has_moved);
            }
            has_moved = true;
        }
    }
}

impl Outgoing<'_> {
    fn go_on<L: Links + ?Sized>(&mut self, to: usize, links: &mut L) -> Result<bool> {
        let Self { data, at } = self;
        if at.message == count(data.len()) {
            return Ok(false);
        }
        let label = at.label();
        let part = data.slice(at.range(data.len()));
        let moved = if at.has_length(data.len()) {
            let length = (data.len() as u64).to_le_bytes();
            links.send(to, label, &[Source::from(&length[..]), part], &mut at.done)?
        } else {
            links.send(to, label, &[part], &mut at.done)?
        };
        Ok(at.follow(moved))
    }
}

impl Incoming<'_> {
    fn go_on<L: Links + ?Sized>(
        &mut self,
        from: usize,
        sent: usize,
        links: &mut L,
    ) -> Result<bool> {
        let len = self.data.len();
        if self.has_landed {
            return Ok(self.settle(sent));
        }
        if self.at.message == count(len) {
            return Ok(false);
        }
        let label = self.at.label();
        let range = self.at.range(len);
        let part = match &mut self.landing {
            Some(landing) => Target::from(&mut landing[..range.len()]),
            None => self.data.slice(range),
        };
        let has_length = self.at.has_length(len);
        let moved = if has_length {
            let parts = [Target::from(&mut self.length[..]), part];
            links.receive(from, label, &parts, &mut self.at.done)?
        } else {
            links.receive(from, label, &[part], &mut self.at.done)?
        };
        if moved == Moved::Whole && has_length {
            let sent = u64::from_le_bytes(self.length);
            if sent != len as u64 {
                return Err(links.differs(from, len as u64, sent));
            }
        }
        if moved == Moved::Whole && self.landing.is_some() {
            self.has_landed = true;
            self.settle(sent);
            return Ok(true);
        }
        Ok(self.at.follow(moved))
    }

    /// Puts what has landed where it belongs, once what is there has been sent.
    fn settle(&mut self, sent: usize) -> bool {
        if sent <= self.at.message {
            return false;
        }
        let range = self.at.range(self.data.len());
        if let Some(landing) = &self.landing {
            self.data.slice(range.clone()).copy_from(Source::from(&landing[..range.len()]));
        }
        self.has_landed = false;
        self.at.follow(Moved::Whole)
    }
}

impl At {
    fn label(self) -> Label {
        let position = u32::try_from(self.message).expect("memory has fewer messages");
        Label { track: 0, position }
    }

    /// The bytes of the message.
    fn range(self, len: usize) -> std::ops::Range<usize> {
        (self.message * MESSAGE).min(len)..((self.message + 1) * MESSAGE).min(len)
    }

    /// Whether the message begins with the length of all.
    fn has_length(self, len: usize) -> bool {
        self.message == 0 && len > MESSAGE
    }

    /// Whether it went anywhere.
    fn follow(&mut self, moved: Moved) -> bool {
        if moved == Moved::Whole {
            *self = Self { message: self.message + 1, done: 0 };
        }
        moved != Moved::Nothing
    }
}

/// How many messages so many bytes are.
fn count(len: usize) -> usize {
    len.div_ceil(MESSAGE).max(1)
}

fn keep_own(from: Source<'_>, to: Target<'_>) {
    if from.as_ptr() != to.as_mut_ptr().cast_const() {
        to.copy_from(from);
    }
}

fn is_same(out: Source<'_>, into: Target<'_>) -> bool {
    !out.is_empty() && out.as_ptr() == into.as_mut_ptr().cast_const()
}

const MESSAGE: usize = 128 << 10;
