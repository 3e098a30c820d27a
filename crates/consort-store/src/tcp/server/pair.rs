//! The other store: what goes to the one that follows, what comes from the one that is followed,
//! and what clients are told of either.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use super::room::{Door, Room};
use crate::auth::Session;
use crate::deadline::clock_now;
use crate::keeper::{Keeper, Standing};
use crate::proto::{House, Message, Word};
use crate::tcp::connection::End;
use crate::tcp::feed::Feed;

/// What a server does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// It serves clients.
    Serves {
        /// Where its standby is, if it has one that would lose nothing.
        standby: Option<SocketAddr>,
    },
    /// It is a standby.
    Follows {
        /// Whether it would lose nothing if it took over now.
        ready: bool,
    },
    /// It is of no more use.
    Aside {
        /// Why.
        reason: String,
    },
}

/// What a server knows of the other store.
#[derive(Debug)]
pub(super) struct Pair<S> {
    /// The connection of the store that follows this one, and where clients reach that.
    second: Option<(usize, SocketAddr)>,
    /// The store that this one follows.
    feed: Option<Feed<S>>,
    /// Whether this store has never served.
    is_standby: bool,
    /// What clients have been told.
    pub(super) told: House,
    /// What the server's owner is told.
    pub(super) role: Arc<Mutex<Role>>,
    /// Who has something to say that has to wait until the second store has caught up.
    pub(super) postponed: Vec<usize>,
}

/// What a store that follows says.
#[derive(Debug)]
pub(super) enum Asked {
    Attach(SocketAddr),
    Have(u64),
    Took,
}

impl<S> Pair<S> {
    pub(super) fn new(keeper: &Keeper, feed: Option<Feed<S>>) -> Self {
        let mut pair = Self {
            second: None,
            is_standby: feed.is_some(),
            feed,
            told: House::default(),
            role: Arc::new(Mutex::new(Role::Follows { ready: false })),
            postponed: Vec::new(),
        };
        pair.told = pair.house(keeper);
        pair.show(keeper);
        pair
    }

    pub(super) fn is_second(&self, connection: usize) -> bool {
        self.second.is_some_and(|(second, _)| second == connection)
    }

    fn house(&self, keeper: &Keeper) -> House {
        let aside = match keeper.standing(clock_now()) {
            Standing::Serves => String::new(),
            Standing::Follows => "it is a standby".to_owned(),
            Standing::Aside(reason) => reason,
        };
        // Whoever is told to look elsewhere must know where.
        let relies = keeper.is_paired() || !aside.is_empty();
        let standby = self.second.filter(|_| relies).map(|(_, address)| address);
        House { epoch: keeper.epoch(), aside, standby }
    }

    fn show(&self, keeper: &Keeper) {
        let role = match keeper.standing(clock_now()) {
            Standing::Serves => Role::Serves { standby: self.told.standby },
            Standing::Follows => Role::Follows { ready: keeper.is_ready() },
            Standing::Aside(reason) => Role::Aside { reason },
        };
        *self.role.lock().unwrap_or_else(PoisonError::into_inner) = role;
    }
}

/// Makes the connection of a standby that listens here into one on which it follows.
pub(super) fn feed(
    (stream, session): (TcpStream, Session),
    listener: &TcpListener,
) -> io::Result<Feed> {
    // The way to the first store is a way that its clients know.
    let address = SocketAddr::new(stream.local_addr()?.ip(), listener.local_addr()?.port());
    Feed::new(stream, session, address)
}

impl<D: Door> Room<D> {
    /// Passes on what has come of the last messages: notes to the second store, answers to clients,
    /// and to everybody how this store stands, if that has changed.
    pub(super) fn pass_on(&mut self) {
        self.send_notes();
        self.deliver();
        self.resume();
        self.pair.show(&self.keeper);
        let house = self.pair.house(&self.keeper);
        if house == self.pair.told {
            return;
        }
        self.remark(&house);
        self.pair.told = house.clone();
        self.pair.show(&self.keeper);
        for (&client, connection) in &mut self.connections {
            if !self.pair.is_second(client) {
                connection.tell(&Word::House(house.clone()));
                self.unwritten.push(client);
            }
        }
    }

    /// The second store says something.
    pub(super) fn hear_second(&mut self, connection: usize, asked: Asked) {
        match asked {
            Asked::Attach(address) => self.attach(connection, address),
            Asked::Have(index) if self.pair.is_second(connection) => {
                self.keeper.have(index, clock_now());
            }
            Asked::Took if self.pair.is_second(connection) => self.keeper.depose(),
            Asked::Have(_) | Asked::Took => {}
        }
    }

    /// The second store's connection is gone. The clock is looked at now: what counts is when that
    /// was noticed.
    pub(super) fn lose_second(&mut self, end: &End) {
        let closed = matches!(end, End::Gone);
        self.keeper.second_lost(closed, clock_now());
        if let Some((_, address)) = self.pair.second {
            match self.keeper.standing(clock_now()) {
                Standing::Serves => {
                    self.pair.second = None;
                    tracing::warn!("the store's standby at {address} has ended: it has none now");
                }
                _ => tracing::error!(
                    "the store's standby at {address} is out of reach and may have taken over: \
                     this store does not serve any more"
                ),
            }
        }
    }

    /// Whether the second store is too far behind for clients to be listened to.
    pub(super) fn is_behind(&self) -> bool {
        let second = self.pair.second.and_then(|(second, _)| self.connections.get(&second));
        self.keeper.held() > BEHIND || second.is_some_and(|second| second.unwritten() > BEHIND)
    }

    /// Listens to clients again if the second store has caught up.
    pub(super) fn resume(&mut self) {
        if !self.pair.postponed.is_empty() && !self.is_behind() {
            self.again.append(&mut self.pair.postponed);
        }
    }

    /// Reads what the store says that this one follows.
    pub(super) fn follow(&mut self) {
        let Some(feed) = &mut self.pair.feed else { return };
        let keeper = &mut self.keeper;
        let mut has = None;
        let read = feed.read(&mut self.scratch, |note, _| match keeper.hear(note, clock_now()) {
            Ok(index) => has = index.or(has),
            Err(reason) => tracing::error!("the store's standby is of no use: {reason}"),
        });
        if let Some(index) = has {
            feed.tell(&Message::Have { index });
        }
        let end = read.and_then(|()| feed.write());
        if let Err(end) = end {
            self.lose_first(&end);
        }
    }

    fn lose_first(&mut self, end: &End) {
        match end {
            End::Gone => self.keeper.first_lost(true),
            End::Damaged(damage) => self.keeper.give_up(&damage.to_string()),
            _ => self.keeper.first_lost(false),
        }
        if let Some(mut feed) = self.pair.feed.take() {
            self.door.forget(feed.stream());
        }
    }

    fn attach(&mut self, connection: usize, address: SocketAddr) {
        if self.pair.second.is_some() || !self.keeper.attach(clock_now()) {
            self.close(connection, &End::Gone);
            return;
        }
        self.pair.second = Some((connection, address));
    }

    fn send_notes(&mut self) {
        if self.keeper.notes.is_empty() {
            return;
        }
        let notes = std::mem::take(&mut self.keeper.notes);
        let Some((second, _)) = self.pair.second else { return };
        let Some(connection) = self.connections.get_mut(&second) else { return };
        for note in notes {
            connection.tell(&Word::Note(note));
        }
        self.unwritten.push(second);
    }

    /// Says in the log what changes.
    fn remark(&mut self, house: &House) {
        let was = &self.pair.told;
        if was.standby != house.standby
            && let Some(standby) = house.standby
        {
            tracing::info!("the store has a standby at {standby}");
        }
        if house.aside.is_empty() && std::mem::take(&mut self.pair.is_standby) {
            tracing::warn!("the store was lost: its standby has taken over");
            if let Some(feed) = &mut self.pair.feed {
                tracing::info!("the store at {} was silent", feed.peer());
                feed.tell(&Message::Took);
                // It is out of reach; whether it hears this shows.
                let _ = feed.write();
            }
        }
    }
}

/// Bytes on their way to the second store, or held back for it, beyond which clients have to wait.
pub(super) const BEHIND: usize = 64 << 20;
