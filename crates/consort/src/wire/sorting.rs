//! What is done with a frame that has come: it is left to the call that asks for it, kept for another,
//! or heard.

use std::time::Instant;

use consort_sys::view::Target;

use super::ending::{Ending, is_of_now};
use super::frame::{Header, Kind};
use super::parts;
use super::stream::Kept;
use super::{Hub, Switch, Trouble};
use crate::exec::Moved;

impl Switch {
    /// The frame at the front of a connection, if it is one of this group's calls. What was said is
    /// heard, and what is for others is kept for them, first.
    pub(super) fn front(
        &self,
        hub: &mut Hub,
        from: u32,
        at: usize,
        group: u64,
    ) -> Result<Option<Header>, Trouble> {
        loop {
            let peer = &mut hub.peers[from as usize];
            let Some(stream) = peer.streams.get_mut(at) else { return Ok(None) };
            match stream.glance(hub.glance) {
                Ok(None) => return Ok(None),
                Ok(Some(header)) if header.kind == Kind::Part && header.group == group => {
                    return Ok(Some(header));
                }
                Ok(Some(_)) => {
                    if !self.keep(hub, from, at)? {
                        return Ok(None);
                    }
                }
                Err(broken) => {
                    self.break_off(hub, from, at, broken)?;
                    return Ok(None);
                }
            }
        }
    }

    /// Keeps the frame at the front of a connection, or hears what it says. Whether it has come to its
    /// end.
    pub(super) fn keep(&self, hub: &mut Hub, from: u32, at: usize) -> Result<bool, Trouble> {
        let peer = &mut hub.peers[from as usize];
        let Some(stream) = peer.streams.get_mut(at) else { return Ok(false) };
        let kept = match stream.keep() {
            Ok(kept) => kept,
            Err(broken) => {
                self.break_off(hub, from, at, broken)?;
                return Ok(false);
            }
        };
        let Some(kept) = kept else { return Ok(false) };
        self.file(hub, from, kept);
        self.ring_if_dozing(hub);
        Ok(true)
    }

    /// Does with a frame what its kind asks for.
    fn file(&self, hub: &mut Hub, from: u32, kept: Kept) {
        let Header { kind, group, number, .. } = kept.header;
        let peer = &mut hub.peers[from as usize];
        if !is_of_now(&kept.header, self.epoch, &hub.left) {
            return;
        }
        if !kept.is_whole {
            return peer.use_up(&kept.header);
        }
        match kind {
            Kind::Credit => peer.credit(&kept.header),
            Kind::Leave => peer.leave(group, number),
            Kind::Bye => peer.last_words.hear_bye(number),
            Kind::Mourn => hub.hear_of_death(from, number),
            Kind::Await => {
                let station = hub.stations.entry(group).or_default();
                station.awaits.insert(from, (number, Instant::now()));
            }
            Kind::Ask => {
                let station = hub.stations.entry(group).or_default();
                station.hear(from, kept.header);
            }
            Kind::Halt => {
                let ending = Ending::heard(&kept.header, kept.rest);
                self.hear_of_end(hub, from, group, ending);
            }
            Kind::Part | Kind::Letter => {
                let station = hub.stations.entry(group).or_default();
                match station.ended.get() {
                    Some(_) => peer.use_up(&kept.header),
                    None => station.keep(from, kept),
                }
            }
        }
    }

    /// Takes notice that a group has ended, and passes it on: those who wait for this rank may have no
    /// connection to any other that knows.
    fn hear_of_end(&self, hub: &mut Hub, from: u32, group: u64, ending: Ending) {
        // What it was in the middle of is in the way of other groups.
        hub.peers.iter_mut().for_each(|peer| peer.abandon(group));
        let station = hub.stations.entry(group).or_default();
        // Whatever was heard first was passed on.
        if !station.ended.hear(ending.clone()) {
            return;
        }
        let (ranks, header) = (station.ranks.clone(), ending.word(group, self.epoch));
        for peer in hub.peers_of(&ranks, self.me).filter(|peer| peer.rank() != from) {
            peer.say(&header, &ending.verdict);
        }
    }

    /// Gives a kept frame to whom it is for.
    pub(super) fn unpack(
        &self,
        hub: &mut Hub,
        from: u32,
        kept: Kept,
        parts: &[Target<'_>],
        done: &mut usize,
    ) -> Result<Moved, Trouble> {
        kept.check(from)?;
        let (header, expected) = (kept.header, parts::total(parts));
        if header.bytes as usize != expected {
            return Err(Trouble::Length { from, header, expected });
        }
        parts::fill(parts, kept.taken, kept.rest[..].into());
        *done = expected;
        hub.peers[from as usize].use_up(&header);
        Ok(Moved::Whole)
    }
}
