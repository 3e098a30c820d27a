//! A server without a thread: what happens on its host is its turn.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use consort_testkit::net::{End, Event, Net, Socket};

use super::see_clock;
use crate::keeper::Keeper;
use crate::mirror::Times;
use crate::secret::Secret;
use crate::tcp::server::room::{Door, Room};

/// A store's server on a host.
pub(crate) struct Server {
    net: Net,
    host: usize,
    start: Instant,
    room: Room<Porch>,
    /// When it is to look at the clock.
    alarm: Option<Instant>,
}

/// Where its clients come from.
#[derive(Debug, Default)]
pub(in crate::tcp) struct Porch {
    arrived: VecDeque<Socket>,
    places: BTreeMap<End, usize>,
}

impl Server {
    pub(crate) fn new(net: &Net, host: usize, secret: &Secret, start: Instant) -> Self {
        see_clock(net, host, start);
        let keeper = Keeper::first(Times::within(Duration::ZERO));
        let room = Room::new(Porch::default(), secret, keeper, None);
        Self { net: net.clone(), host, start, room, alarm: None }
    }

    /// Something has happened on its host.
    pub(crate) fn hear(&mut self, event: Event) {
        let now = see_clock(&self.net, self.host, self.start);
        self.room.read_more();
        match event {
            Event::Opened(socket) => {
                self.room.door.arrived.push_back(socket);
                self.room.accept();
            }
            Event::Readable(end) => {
                if let Some(&client) = self.room.door.places.get(&end) {
                    self.room.read(client, self.net.is_read_closed(end));
                }
            }
            Event::Writable(end) => {
                if let Some(&client) = self.room.door.places.get(&end) {
                    self.room.write(client);
                }
            }
            Event::Alarm(_) => self.alarm = None,
        }
        self.room.finish_turn(now);
        let due = if self.room.has_more() { Some(now) } else { self.room.due_at(now) };
        if let Some(due) = due
            && self.alarm.is_none_or(|alarm| due < alarm)
        {
            self.alarm = Some(due);
            let at = due - self.start;
            self.net.alarm(self.host, at + Duration::from_millis(u64::from(due > now)), 0);
        }
    }

    /// How many have proved that they belong to the job, and are connected.
    pub(super) fn members(&self) -> usize {
        self.room.members()
    }
}

impl Door for Porch {
    type Stream = Socket;

    fn accept(&mut self) -> io::Result<(Socket, SocketAddr)> {
        let socket = self.arrived.pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        Ok((socket, SocketAddr::from(([127, 0, 0, 1], 1))))
    }

    fn watch(&mut self, stream: &mut Socket, connection: usize) -> io::Result<()> {
        self.places.insert(stream.end(), connection);
        Ok(())
    }

    fn forget(&mut self, stream: &mut Socket) {
        self.places.remove(&stream.end());
    }
}
