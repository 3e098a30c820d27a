//! The thread that writes to this rank's windows for the others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use consort::{
    Dtype, Element, ErrorKind, Group, Incoming, Message, Outgoing, OwnedMessage, Rank, Source, Tag,
};

use super::mailbox::{Mailbox, Signal, Wanted};
use crate::failure::{Failure, Result, catch};
use crate::lock;
use crate::memory::Region;

/// What a communicator with windows has.
#[derive(Debug)]
pub(crate) struct Service {
    /// For what goes to windows alone.
    group: Group,
    shared: Arc<Shared>,
    /// How much was sent to each rank.
    sent: Mutex<Vec<u64>>,
    /// None once it was waited for.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread works on.
#[derive(Debug)]
struct Shared {
    mailbox: Mailbox,
    windows: Mutex<Windows>,
}

#[derive(Debug, Default)]
struct Windows {
    all: BTreeMap<u64, Region>,
    last: u64,
}

impl Service {
    /// Starts it. Every rank of the group has to, which has to have no other purpose.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub(crate) fn start(group: Group) -> Result<Self> {
        let mailbox = Mailbox::new(group.world());
        let shared = Arc::new(Shared { mailbox, windows: Mutex::default() });
        let (seen, served) = (shared.clone(), group.clone());
        let thread = thread::Builder::new()
            .name("consort-window".to_owned())
            .spawn(move || seen.serve(&served))
            .map_err(|error| Failure::system(format!("there is no thread for windows: {error}")))?;
        let (sent, thread) = (Mutex::new(vec![0; group.world()]), Mutex::new(Some(thread)));
        Ok(Self { group, shared, sent, thread })
    }

    /// Takes what is put into this memory from here on. Says which window it is.
    pub(super) fn admit(&self, mine: Region) -> u64 {
        let mut windows = lock(&self.shared.windows);
        windows.last += 1;
        let index = windows.last;
        windows.all.insert(index, mine);
        index
    }

    /// Takes nothing more for it.
    pub(super) fn dismiss(&self, index: u64) {
        lock(&self.shared.windows).all.remove(&index);
    }

    /// How much was sent to each rank so far.
    pub(super) fn sent(&self) -> Vec<u64> {
        lock(&self.sent).clone()
    }

    /// Waits until so much has come from each rank.
    ///
    /// # Errors
    /// When it does not.
    pub(super) fn await_all(&self, counts: &[u64], within: Duration) -> Result<()> {
        self.shared.mailbox.await_all(counts, within)
    }

    /// Has data and a signal sent, or a signal alone.
    ///
    /// # Errors
    /// When the group has ended; or the window was closed since the program asked for this, and so was the peer's.
    pub(crate) fn put(
        &self,
        data: Option<(u64, usize, Region)>,
        signal: Signal,
    ) -> Result<Vec<Underway>> {
        let to = Rank::from(signal.peer);
        let [index, context] = signal.words();
        let (window, offset, len) =
            data.map_or((0, 0, 0), |(window, offset, data)| (window, offset, data.len()));
        if len > 0 && !lock(&self.shared.windows).all.contains_key(&window) {
            return Err(Failure::argument(
                "the window was deregistered before this was to be put into it",
            ));
        }
        let note = [window, offset as u64, len as u64, index, context];
        // The note and the data of one must not get between those of another.
        let mut sent = lock(&self.sent);
        let begin = |parcel| self.group.message_async(parcel).map_err(consort::Error::from);
        let mut begun = vec![begin(Parcel { to, body: Body::Note(note) })?];
        if let Some((_, _, data)) = data.filter(|(_, _, data)| data.len() > 0) {
            begun.push(begin(Parcel { to, body: Body::Data(data) })?);
        }
        sent[to.index()] += 1;
        Ok(begun)
    }

    /// Waits for signals, and takes them.
    ///
    /// # Errors
    /// When they do not come.
    pub(crate) fn take(&self, wanted: &[Wanted]) -> Result<()> {
        self.shared.mailbox.take(wanted, self.group.timeout())
    }

    /// Ends what is on its way.
    pub(crate) fn abort(&self, why: &str) {
        self.group.abort(why);
    }

    /// Waits until the thread has ended, which was told to: from then on nobody writes to windows.
    pub(crate) fn rest(&self) {
        // Others who come meanwhile wait here, too.
        let mut thread = lock(&self.thread);
        // A panic of its is caught; there is nothing else to hear of.
        let _ = thread.take().map(JoinHandle::join);
    }
}

impl Drop for Service {
    /// The thread ends when it is told. What was put before is there then, and nobody writes to windows any more.
    fn drop(&mut self) {
        // If it cannot be told, the group has ended, and it knows.
        let _ = self.group.send(&STOP, self.group.rank(), NOTE);
        self.rest();
    }
}

impl Shared {
    /// Until it is told to stop, or nothing can come any more.
    fn serve(&self, group: &Group) {
        let ended = loop {
            match catch(|| self.next(group)) {
                Ok(true) => {}
                Ok(false) => break Failure::usage("the communicator was destroyed"),
                Err(failure) => break failure,
            }
        };
        self.mailbox.close(ended);
    }

    /// Takes the next thing that comes. Says whether there may be more.
    fn next(&self, group: &Group) -> Result<bool> {
        let mut note = STOP;
        let from = match group.within(AT_A_TIME).recv_any(&mut note, NOTE) {
            Ok(from) => from,
            Err(error) if error.kind() == ErrorKind::Deadline && group.error().is_none() => {
                return Ok(true);
            }
            Err(error) => return Err(error.into()),
        };
        if note == STOP && from == group.rank() {
            return Ok(false);
        }
        let [window, offset, len, index, context] = note;
        let Some(signal) = Signal::read(from.get(), [index, context]) else {
            return Err(damaged(group, from, "a signal that there is not"));
        };
        if len > 0 {
            let Some(place) = self.place(window, offset, len) else {
                return Err(damaged(group, from, "data for no window, or beyond its end"));
            };
            let (buffer, from, tag) = (place.target(), Some(from), Tag::from(DATA));
            group.exchange(None, Some(Incoming { dtype: Dtype::U8, buffer, from, tag }))?;
        }
        self.mailbox.put(signal);
        Ok(true)
    }

    /// Where data goes, if it can.
    fn place(&self, window: u64, offset: u64, len: u64) -> Option<Region> {
        let windows = lock(&self.windows);
        let mine = windows.all.get(&window)?;
        mine.part(usize::try_from(offset).ok()?, usize::try_from(len).ok()?)
    }
}

/// What came cannot be, so that nothing that comes after it makes sense.
fn damaged(group: &Group, from: Rank, what: &str) -> Failure {
    let text = format!("rank {from} has sent {what}");
    group.abort(&text);
    Failure::usage(text)
}

/// Something that is being sent.
pub(crate) type Underway = consort::Work<(Parcel, Option<Rank>), Parcel>;

/// Something on its way to a window.
#[derive(Debug)]
pub(crate) struct Parcel {
    to: Rank,
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// Window, offset, length, signal, context.
    Note([u64; 5]),
    Data(Region),
}

impl OwnedMessage for Parcel {
    fn message(&mut self) -> Message<'_> {
        let (dtype, data, tag): (Dtype, Source<'_>, u32) = match &self.body {
            Body::Note(words) => (Dtype::U64, u64::source(words), NOTE),
            Body::Data(data) => (Dtype::U8, data.source(), DATA),
        };
        Message::Out(Outgoing { dtype, data, to: self.to, tag: Tag::from(tag) })
    }
}

const NOTE: u32 = 1;
const DATA: u32 = 2;
/// No note, as there is no such window.
const STOP: [u64; 5] = [u64::MAX; 5];
/// How long the thread waits before it waits anew: shorter than it takes a rank to warn of others.
const AT_A_TIME: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn whoever_waits_for_its_end_does_so_until_it_is_there() {
        let group = consort::Builder::new().rank(0).world(1).init().unwrap();
        let service = Arc::new(Service::start(group).unwrap());
        let (say, hear) = mpsc::channel();
        for _ in 0..2 {
            let (service, say) = (service.clone(), say.clone());
            thread::spawn(move || {
                service.rest();
                say.send(()).unwrap();
            });
        }
        assert!(hear.recv_timeout(Duration::from_millis(300)).is_err(), "it has not ended");
        service.abort("the test is over");
        (0..2).for_each(|_| hear.recv_timeout(Duration::from_secs(30)).unwrap());
    }
}
