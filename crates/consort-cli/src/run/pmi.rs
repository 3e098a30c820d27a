//! What an MPI needs of whoever starts its processes: to tell each which it is of how many, to keep the few values
//! by which they find each other, and to say when all are there. That is PMI-1, a protocol of lines through a socket that
//! the process inherits, which MPICH and its relatives speak. So ranks of `consort run --backend mpi` are one world to it.
//!
//! [`words`] are the lines, [`hall`] is what ranks have in common; here is a thread for each rank that listens to it.

mod hall;
#[cfg(test)]
mod tests;
mod words;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use consort_store::Store;
use rustix::io::{FdFlags, fcntl_setfd};

use self::hall::{Hall, Over, Standing};
use self::words::{Answer, Ask, Reader};
use super::event::Event;
use super::notice::notice;
use super::placement::Placement;
use super::status::Status;

/// What serves the ranks of this host, for one start of them.
#[derive(Debug)]
pub(crate) struct Pmi {
    hall: Arc<Hall>,
    first_rank: u32,
    node: u32,
    epoch: u64,
    events: Sender<Event>,
    /// With each local rank.
    talks: RefCell<BTreeMap<u32, Talk>>,
    /// How long last words are still waited for, of all ranks together: a store that does not answer keeps each of them.
    patience: Cell<Duration>,
}

/// A conversation with a rank, as seen by who does not take part in it.
#[derive(Debug)]
struct Talk {
    socket: Arc<UnixStream>,
    /// Disconnected when it is over.
    is_over: Receiver<Infallible>,
}

/// A rank's end of the conversation. To be held until its process has begun, and no longer.
#[derive(Debug)]
pub(crate) struct Seat {
    socket: UnixStream,
    rank: u32,
    world: u32,
}

impl Pmi {
    /// For the ranks that have this place. They find those of other hosts through the job's store. Whose
    /// end they ask for is told as an event.
    pub(crate) fn new(place: &Placement, store: &Arc<dyn Store>, events: Sender<Event>) -> Self {
        let hall = Arc::new(Hall::new(place, store));
        let Placement { first_rank, node, epoch, .. } = *place;
        let (talks, patience) = (RefCell::default(), Cell::new(LAST_WORDS));
        Self { hall, first_rank, node, epoch, events, talks, patience }
    }

    /// A seat for a rank, which the next process that is started inherits.
    ///
    /// # Errors
    /// When the system has no more sockets or threads.
    pub(crate) fn seat(&self, local_rank: u32) -> io::Result<Seat> {
        let (ours, socket) = UnixStream::pair()?;
        fcntl_setfd(&socket, FdFlags::empty())?;
        let (hall, rank) = (self.hall.clone(), self.first_rank + local_rank);
        let (epoch, events) = (self.epoch, self.events.clone());
        let listener = Listener { hall, local_rank, rank, epoch, events };
        let (ours, (over, is_over)) = (Arc::new(ours), mpsc::channel());
        let talk = Talk { socket: ours.clone(), is_over };
        let serve = move || listener.converse(&ours, over);
        thread::Builder::new().name(format!("pmi {rank}")).spawn(serve)?;
        self.talks.borrow_mut().insert(local_rank, talk);
        Ok(Seat { socket, rank, world: self.hall.world })
    }

    /// Takes note of the end of a local rank, and says how it counts. One that left an MPI which it `could_finalize`
    /// has failed: others wait for it there, for ever.
    pub(crate) fn ended(&self, local_rank: u32, status: Status, could_finalize: bool) -> Status {
        let rank = self.first_rank + local_rank;
        self.hall.miss(rank);
        if let Some(talk) = self.talks.borrow_mut().remove(&local_rank) {
            let began = Instant::now();
            talk.hear_out(self.patience.get());
            self.patience.set(self.patience.get().saturating_sub(began.elapsed()));
        }
        let standing = self.hall.leave(local_rank, rank);
        end_forlorn(&self.hall, self.epoch, &self.events);
        match standing {
            Standing::Aborted(code) => Status::Aborted(code),
            Standing::Forlorn(rank) => Status::Forlorn(rank),
            Standing::Inside if could_finalize && status.is_success() => Status::LeftMpi,
            _ => status,
        }
    }
}

impl Drop for Pmi {
    fn drop(&mut self) {
        self.hall.close();
        // All ranks have ended; those that did not come to MPI's end have left its memory behind.
        let _ = fs::remove_file(memory_of(&self.hall.name, self.node));
    }
}

impl Talk {
    /// Waits until all is heard that a rank has said which has ended: its end may be known before its last words are
    /// read. A child of its that has the socket, too, says nothing more.
    fn hear_out(self, limit: Duration) {
        // What has come can still be read.
        let _ = self.socket.shutdown(Shutdown::Both);
        let _ = self.is_over.recv_timeout(limit);
    }
}

impl Seat {
    /// What the process is to find in its environment.
    pub(crate) fn variables(&self) -> [(&'static str, String); 4] {
        let descriptor = self.socket.as_raw_fd().to_string();
        [
            // By this one a rank of ours says that it leaves, if its MPI cannot.
            ("PMI_CONSORT", descriptor.clone()),
            ("PMI_FD", descriptor),
            ("PMI_RANK", self.rank.to_string()),
            ("PMI_SIZE", self.world.to_string()),
        ]
    }
}

/// What listens to a rank.
struct Listener {
    hall: Arc<Hall>,
    local_rank: u32,
    rank: u32,
    epoch: u64,
    events: Sender<Event>,
}

/// Why a rank is not answered any more.
enum Unserved {
    Over(Over),
    /// It said this.
    Senseless(String),
}

impl Listener {
    /// Answers the rank until it has nothing more to say. Who waits for it hears that it says nothing more, even if it
    /// lives on. The end `over` goes when all is heard: what follows may wait for the store.
    fn converse(&self, socket: &UnixStream, over: Sender<Infallible>) {
        let unserved = self.serve(socket).err();
        drop(over);
        let _ = socket.shutdown(Shutdown::Both);
        self.hall.miss(self.rank);
        if let Some(why) = unserved {
            self.tell(why);
        }
    }

    fn serve(&self, mut socket: &UnixStream) -> Result<(), Unserved> {
        let (mut reader, mut bytes) = (Reader::default(), [0; 4096]);
        loop {
            while let Some(ask) = reader.take().map_err(|it| Unserved::Senseless(it.0))? {
                if let Some(line) = self.answer(&ask).map_err(Unserved::Over)? {
                    // One that has ended does not hear it, and may have said more.
                    let _ = socket.write_all(line.as_bytes());
                }
                if ask == Ask::Finalize {
                    return Ok(());
                }
            }
            match socket.read(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(count) => reader.feed(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It was killed.
                Err(_) => return Ok(()),
            }
        }
    }

    /// Says why the rank is not answered any more, if that is not by itself.
    fn tell(&self, why: Unserved) {
        let rank = self.rank;
        match why {
            Unserved::Over(Over::Closed) => {}
            // It has ended in the barrier.
            Unserved::Over(Over::Missing(missing)) if missing == rank => {}
            Unserved::Over(Over::Missing(missing)) => self.hall.said_missing.call_once(|| {
                let what = "which has ended, or says nothing more to its launcher";
                notice(format_args!("rank {rank} waits in MPI for rank {missing}, {what}"));
            }),
            Unserved::Over(Over::Store(error)) => {
                tracing::warn!(rank, %error, "the store does not answer what it asks for MPI");
            }
            Unserved::Senseless(said) => {
                tracing::warn!(rank, said, "what it says to MPI's launcher cannot be answered");
            }
        }
    }

    /// The line that answers, if one does.
    fn answer(&self, ask: &Ask) -> Result<Option<String>, Over> {
        let Self { hall, local_rank, .. } = self;
        let value;
        let answer = match ask {
            Ask::Init { version } => {
                hall.stand(*local_rank, Standing::Inside);
                end_forlorn(hall, self.epoch, &self.events);
                Answer::Init { is_spoken: *version == 1 }
            }
            Ask::Maxes => Answer::Maxes,
            Ask::Appnum => Answer::Appnum,
            Ask::Name => Answer::Name(&hall.name),
            Ask::Universe => Answer::Universe(hall.world),
            Ask::Put { key, value } => Answer::Put { is_kept: hall.put(key, value) },
            Ask::Get { key } => {
                value = hall.get(key)?;
                Answer::Value(value.as_deref())
            }
            Ask::Barrier => {
                hall.meet()?;
                Answer::BarrierOut
            }
            Ask::Finalize => {
                hall.stand(*local_rank, Standing::Finalized);
                Answer::Finalized
            }
            Ask::Abort { code } => {
                self.abort(*code);
                return Ok(None);
            }
            Ask::Other(denied) => Answer::Denied(*denied),
        };
        Ok(Some(format!("{answer}\n")))
    }

    /// Has the rank ended: a library may leave that to its launcher, and go on.
    fn abort(&self, code: i32) {
        if self.hall.stand(self.local_rank, Standing::Aborted(code)) {
            // If nobody receives it, all ranks are being ended.
            let _ = self.events.send(Event::EndedByMpi(self.epoch, self.local_rank));
        }
    }
}

/// Has those ended who wait for one that never came to MPI: they look at nothing but memory.
fn end_forlorn(hall: &Hall, epoch: u64, events: &Sender<Event>) {
    for local_rank in hall.take_forlorn() {
        let _ = events.send(Event::EndedByMpi(epoch, local_rank));
    }
}

/// Where MPICH has the memory that ranks of this host share, in a job of this name.
fn memory_of(name: &str, node: u32) -> String {
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("/dev/shm/mpich_shm_{hash:x}_{node}")
}

/// How long what ranks have said last may take to be heard.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Variables of another launcher of MPI, outside this one, that are not for our ranks.
pub(crate) const OUTER: [&str; 9] = [
    "PMI_CONSORT",
    "PMI_FD",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_PORT",
    "PMI_ID",
    "PMI_SPAWNED",
    "PMIX_RANK",
    "PMIX_NAMESPACE",
];
