//! A track: runs a script for one segment after the other.

use consort_sys::record::Stopwatch;
use consort_sys::reduce::Kernel;
use consort_sys::view::Target;

use super::links::{Label, Links, Moved};
use super::memory::{Plot, Spaces};
use super::parts::{combine, copy, receive, reduce, send};
use super::place::Buffers;
use super::script::{Message, Script};
use super::segments::{Cut, LINE};
use crate::error::Result;

/// What all tracks of a call have in common.
pub(super) struct Scene<'v> {
    pub(super) script: &'v Script,
    pub(super) buffers: Buffers<'v>,
    pub(super) plot: &'v Plot,
    pub(super) cut: Cut,
    pub(super) tracks: usize,
    pub(super) kernels: Option<Kernels>,
    pub(super) watch: &'v Stopwatch,
}

/// How operands are combined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernels {
    /// Those of all ranks.
    pub(super) all: Kernel,
    /// Two of them.
    pub(super) pair: Kernel,
}

/// Where a track is.
#[derive(Debug)]
pub(super) struct Track {
    number: usize,
    segment: usize,
    round: usize,
    /// How far each message of the round is; none if the round has not begun.
    moves: Vec<Move>,
    has_begun: bool,
    left: usize,
}

#[derive(Clone, Copy, Debug)]
struct Move {
    done: usize,
    is_whole: bool,
}

impl Track {
    pub(super) fn new(number: usize) -> Self {
        Self { number, segment: number, round: 0, moves: Vec::new(), has_begun: false, left: 0 }
    }

    /// Whether all its segments are done.
    pub(super) fn is_done(&self, scene: &Scene<'_>) -> bool {
        self.segment >= scene.cut.segments || scene.script.rounds() == 0
    }

    /// With whom it has something outstanding.
    pub(super) fn awaits<'t>(&'t self, script: &'t Script) -> impl Iterator<Item = usize> + 't {
        let moves = if self.has_begun { &self.moves[..] } else { &[] };
        let messages = moves.iter().enumerate().filter(|(_, it)| !it.is_whole);
        messages.map(|(number, _)| script.messages(self.round)[number].peer)
    }

    /// Goes as far as it can. Whether that was anywhere.
    pub(super) fn go_on<L: Links + ?Sized>(
        &mut self,
        scene: &Scene<'_>,
        scratch: Target<'_>,
        links: &mut L,
    ) -> Result<bool> {
        let mut has_moved = false;
        while !self.is_done(scene) {
            let Scene { buffers, plot, cut, .. } = *scene;
            let spaces = Spaces { buffers, scratch, plot, cut, segment: self.segment };
            if !self.has_begun {
                self.begin(scene, &spaces);
            }
            has_moved |= self.poll(scene, &spaces, links)?;
            if self.left > 0 {
                break;
            }
            self.has_begun = false;
            self.round += 1;
            if self.round == scene.script.rounds() {
                self.round = 0;
                self.segment += scene.tracks;
            }
        }
        Ok(has_moved)
    }

    /// What a round does before its messages.
    fn begin(&mut self, scene: &Scene<'_>, spaces: &Spaces<'_>) {
        for &(from, into) in scene.script.copies(self.round) {
            copy(spaces, from, into);
        }
        if let Some(reduction) = scene.script.reduction(self.round) {
            let kernels = scene.kernels.as_ref().expect("who combines knows how");
            let bytes = spaces.len(&[reduction.into]) * reduction.operands.len();
            scene.watch.time(bytes, || reduce(&kernels.all, spaces, reduction));
        }
        let messages = scene.script.messages(self.round);
        // Empty messages say which call this is; once is enough.
        let is_void = |it: &Message| self.segment > 0 && spaces.len(scene.script.pieces(it)) == 0;
        self.moves.clear();
        self.moves.extend(messages.iter().map(|it| Move { done: 0, is_whole: is_void(it) }));
        self.left = self.moves.iter().filter(|it| !it.is_whole).count();
        self.has_begun = true;
    }

    fn poll<L: Links + ?Sized>(
        &mut self,
        scene: &Scene<'_>,
        spaces: &Spaces<'_>,
        links: &mut L,
    ) -> Result<bool> {
        let mut has_moved = false;
        let mut landing = 0;
        for (message, progress) in scene.script.messages(self.round).iter().zip(&mut self.moves) {
            let pieces = scene.script.pieces(message);
            let mut land = None;
            if message.combination.is_some() {
                let len = spaces.len(pieces);
                land = Some(spaces.landing(landing, len));
                landing += len.next_multiple_of(LINE);
            }
            if progress.is_whole {
                continue;
            }
            let track = self.number as u16;
            let label = Label { track, position: message.position(self.segment) };
            let done = &mut progress.done;
            let moved = if message.sends {
                send(spaces, pieces, |parts| links.send(message.peer, label, parts, done))?
            } else if let Some(land) = land {
                links.receive(message.peer, label, &[land], done)?
            } else {
                receive(spaces, pieces, |parts| links.receive(message.peer, label, parts, done))?
            };
            has_moved |= moved != Moved::Nothing;
            if moved == Moved::Whole {
                progress.is_whole = true;
                self.left -= 1;
                if let (Some(land), Some((with, first))) = (land, message.combination) {
                    let kernels = scene.kernels.as_ref().expect("who combines knows how");
                    let received = (land.into(), with, first);
                    scene.watch.time(2 * land.len(), || {
                        combine(&kernels.pair, spaces, received, pieces[0]);
                    });
                }
            }
        }
        Ok(has_moved)
    }
}
