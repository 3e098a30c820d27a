//! How connections come to be, and what their end means.

use super::pipe::Pipe;
use super::stream::{Broken, Stream};
use super::{Hub, Switch, Trouble};
use crate::exec::Moved;

impl Switch {
    /// Makes what connections are missing, as far as that goes.
    pub(super) fn connect(&self, hub: &mut Hub, rank: u32) {
        let wanted = hub.tuning.streams();
        let peer = &hub.peers[rank as usize];
        // What was begun has to be finished: the other side may have finished it, and use it.
        if peer.streams.len() >= wanted && peer.dialling.is_none() {
            return;
        }
        let peer = &mut hub.peers[rank as usize];
        if let Some((socket, session)) = peer.connect(wanted, &self.secret) {
            let pipe = Pipe::new(socket, self.encrypt.then_some(session));
            let stream = Stream::new(pipe, self.integrity);
            peer.welcome(stream);
            self.greet(hub, rank);
        }
        if hub.peers[rank as usize].streams.is_empty() {
            self.open_door(hub);
        }
    }

    /// Takes in those who stand at the door.
    pub(super) fn open_door(&self, hub: &mut Hub) {
        for (caller, socket, session) in hub.door.take_in(&self.secret) {
            let pipe = Pipe::new(socket, self.encrypt.then_some(session));
            let stream = Stream::new(pipe, self.integrity);
            if let Some(peer) = hub.peers.get_mut(caller.from as usize) {
                peer.welcome(stream);
                self.greet(hub, caller.from);
            }
        }
    }

    /// Tells a process what it could not hear before it had a connection.
    fn greet(&self, hub: &mut Hub, rank: u32) {
        if hub.peers[rank as usize].streams.len() == 1 {
            self.tell_of_the_dead(hub, rank);
        }
    }

    /// A connection has broken. If what came over it cannot be trusted, neither can the rank.
    pub(super) fn break_off(
        &self,
        hub: &mut Hub,
        rank: u32,
        at: usize,
        broken: Broken,
    ) -> Result<Moved, Trouble> {
        let peer = &mut hub.peers[rank as usize];
        let what = broken.to_string();
        let result = match broken {
            Broken::Gone(_) => {
                peer.end_stream(at, &what);
                Ok(Moved::Nothing)
            }
            // Where the next frame begins is known all the same.
            Broken::Changed(header) if header.kind.is_data() => {
                Err(Trouble::Damaged { from: rank, what })
            }
            Broken::Changed(_) | Broken::Nonsense(_) => {
                peer.lose(&what);
                peer.damage = Some(what.clone());
                Err(Trouble::Damaged { from: rank, what })
            }
        };
        self.ring_if_dozing(hub);
        result
    }
}
