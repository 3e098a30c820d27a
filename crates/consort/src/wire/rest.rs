//! How threads wait for the wire.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use consort_sys::hatch::Hatch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::frame::Kind;
use super::peer::Peer;
use super::stream::Stream;
use super::{Hub, Switch};

impl Switch {
    /// Waits until something can be moved, or it is rung, but not longer than the limit; not at all if
    /// `look` finds something.
    pub(crate) fn doze(&self, mut look: impl FnMut() -> bool, limit: Duration) {
        let mut hub = self.lock();
        // From here on whoever moves something of another group rings.
        hub.dozing += 1;
        drop(hub);
        let readable = if look() {
            Vec::new()
        } else {
            // What the look has begun is among them.
            let sockets = self.sockets(&mut self.lock());
            self.sleep(&sockets, limit)
        };
        let mut hub = self.lock();
        hub.dozing -= 1;
        if hub.dozing == 0 {
            self.signal.clear();
        }
        self.open_door(&mut hub);
        self.go_on_dialling(&mut hub);
        readable.into_iter().for_each(|(rank, at)| self.hear(&mut hub, rank, at));
        hub.peers.iter_mut().for_each(Peer::flush);
    }

    /// Wakes all who doze.
    pub(crate) fn ring(&self) {
        self.ring_if_dozing(&self.lock());
    }

    pub(super) fn ring_if_dozing(&self, hub: &Hub) {
        if hub.dozing > 0 {
            self.signal.ring();
        }
    }

    /// Hears what was said on all connections, for one who does not wait.
    pub(crate) fn listen(&self) {
        let mut hub = self.lock();
        for rank in 0..hub.peers.len() {
            for at in 0..hub.peers[rank].streams.len() {
                self.hear(&mut hub, rank as u32, at);
            }
        }
    }

    /// Sleeps. Says which connections can be read, by rank and index.
    fn sleep(&self, sockets: &Sockets, limit: Duration) -> Vec<(u32, usize)> {
        let Sockets { streams, others, ways_in } = sockets;
        let mut list = vec![PollFd::new(&self.signal, PollFlags::IN)];
        if let Some((listener, hatch)) = ways_in {
            list.push(PollFd::new(listener, PollFlags::IN));
            list.extend(hatch.iter().map(|hatch| PollFd::new(hatch, PollFlags::IN)));
        }
        list.extend(others.iter().map(|(socket, flags)| PollFd::new(socket, *flags)));
        let before = list.len();
        list.extend(streams.iter().map(|it| PollFd::new(&it.socket, it.flags)));
        let limit = Timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos().into() };
        // An interrupted sleep is a short one.
        let _ = poll(&mut list, Some(&limit));
        let is_readable = |(fd, _): &(&PollFd<'_>, &Polled)| fd.revents().intersects(READABLE);
        let readable = list[before..].iter().zip(streams).filter(is_readable);
        readable.map(|(_, it)| (it.rank, it.at)).collect()
    }

    /// Hears what was said on a connection, and has others look at what was read for them.
    fn hear(&self, hub: &mut Hub, rank: u32, at: usize) {
        self.hear_out(hub, rank, at);
        self.tell_news(hub, rank, at);
    }

    /// Wakes those who doze if something was read that the system cannot tell them of any more.
    pub(super) fn tell_news(&self, hub: &mut Hub, rank: u32, at: usize) {
        let stream = hub.peers[rank as usize].streams.get_mut(at);
        if stream.is_some_and(Stream::take_news) {
            self.ring_if_dozing(hub);
        }
    }

    /// Hears what was said on a connection, and keeps messages. Parts of calls stay where they are,
    /// unless their group has ended.
    fn hear_out(&self, hub: &mut Hub, rank: u32, at: usize) {
        while let Some(stream) = hub.peers[rank as usize].streams.get_mut(at) {
            match stream.look() {
                Ok(Some(header)) if header.kind != Kind::Part || hub.has_ended(header.group) => {
                    if !matches!(self.keep(hub, rank, at), Ok(true)) {
                        return;
                    }
                }
                Ok(_) => return,
                Err(broken) => {
                    // Whoever waits for that rank finds out what was wrong with it.
                    let _ = self.break_off(hub, rank, at, broken);
                    return;
                }
            }
        }
    }

    /// All that is worth waiting for.
    fn sockets(&self, hub: &mut Hub) -> Sockets {
        let Hub { peers, stations, door, .. } = hub;
        let arriving = door.callers().map(|socket| (socket, PollFlags::IN));
        let dialling = peers.iter().filter_map(|peer| peer.dialling.as_ref()).map(|it| {
            (it.socket(), if it.is_connecting() { PollFlags::OUT } else { PollFlags::IN })
        });
        let others = arriving.chain(dialling).map(|(socket, flags)| (socket.clone(), flags));
        let (others, ways_in) = (others.collect(), door.ways_in());
        let mut streams = Vec::new();
        for peer in peers {
            let rank = peer.rank();
            // What only another thread is going to take would end this one's sleep at once. Some call
            // may wait for what is behind another's frame.
            let is_awaited = stations.values().any(|station| station.awaits_here(rank));
            let streams_here = peer.streams.iter_mut().enumerate();
            for (at, stream) in streams_here.filter(|(_, stream)| !stream.is_over()) {
                // What is wrong with it is found by whoever waits for it.
                let _ = stream.look_ahead();
                let is_part = stream.front().is_some_and(|front| front.kind == Kind::Part);
                let is_left = is_part && !stream.keeps() && !is_awaited;
                let mut flags = if is_left { PollFlags::empty() } else { PollFlags::IN };
                if is_left {
                    stream.leave_out();
                }
                flags.set(PollFlags::OUT, stream.is_full());
                if flags.is_empty() {
                    // Even that it has ended is for whoever takes what is in it.
                    continue;
                }
                streams.push(Polled { rank, at, socket: stream.socket().clone(), flags });
            }
        }
        Sockets { streams, others, ways_in }
    }

    fn go_on_dialling(&self, hub: &mut Hub) {
        let dialling: Vec<u32> = hub
            .peers
            .iter()
            .filter(|peer| peer.dialling.is_some())
            .map(|peer| peer.rank())
            .collect();
        dialling.into_iter().for_each(|rank| self.connect(hub, rank));
    }
}

/// What a thread sleeps on. It holds them: others may close them meanwhile.
struct Sockets {
    streams: Vec<Polled>,
    others: Vec<(Arc<TcpStream>, PollFlags)>,
    /// Where others come in.
    ways_in: Option<(Arc<TcpListener>, Option<Arc<Hatch>>)>,
}

/// One connection of many.
struct Polled {
    rank: u32,
    at: usize,
    socket: Arc<TcpStream>,
    flags: PollFlags,
}

const READABLE: PollFlags = PollFlags::IN.union(PollFlags::HUP).union(PollFlags::ERR);
