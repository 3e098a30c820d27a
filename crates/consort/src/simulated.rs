//! Ranks and a store on a network without machines, for what they decide together.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use consort_store::{Deadline, Error, MemStore, Reply, Request, Store};
use consort_testkit::net::{End, Event, Net, Socket};

/// A store on a host, which answers what can be answered at once.
#[derive(Default)]
pub(crate) struct Keeper {
    pub(crate) store: MemStore,
    guests: BTreeMap<End, Wire>,
}

impl Keeper {
    /// Something has happened on its host.
    pub(crate) fn hear(&mut self, event: Event) {
        match event {
            Event::Opened(socket) => {
                self.guests.insert(socket.end(), Wire::new(socket));
            }
            Event::Readable(end) | Event::Writable(end) => {
                let Some(wire) = self.guests.get_mut(&end) else { return };
                let is_over = wire.move_on().is_err();
                while let Some(bytes) = wire.take_message() {
                    let (call, request): (u64, Request<'_>) = postcard::from_bytes(&bytes).unwrap();
                    let reply = self.store.call(&request, Deadline::now()).ok();
                    wire.say(&postcard::to_allocvec(&(call, reply)).unwrap());
                }
                if is_over {
                    self.guests.remove(&end);
                }
            }
            Event::Alarm(_) => {}
        }
    }
}

/// A rank's way to the store. Once it is lost, it stays so. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Line(Rc<Inner>);

struct Inner {
    net: Net,
    host: usize,
    wire: RefCell<Option<Wire>>,
    next: Cell<u64>,
    answers: RefCell<BTreeMap<u64, Option<Reply>>>,
    was_silent: Cell<bool>,
}

impl Line {
    pub(crate) fn new(net: &Net, host: usize, store: usize) -> Self {
        Self(Rc::new(Inner {
            net: net.clone(),
            host,
            wire: RefCell::new(Some(Wire::new(net.connect(host, store)))),
            next: Cell::default(),
            answers: RefCell::default(),
            was_silent: Cell::new(false),
        }))
    }

    /// Something has happened on the host.
    pub(crate) fn hear(&self, event: &Event) {
        let mut wire = self.0.wire.borrow_mut();
        let (Event::Readable(end) | Event::Writable(end)) = event else { return };
        let Some(it) = wire.as_mut().filter(|wire| wire.socket.end() == *end) else { return };
        let is_over = it.move_on().is_err();
        while let Some(bytes) = it.take_message() {
            let (call, reply) = postcard::from_bytes(&bytes).unwrap();
            self.0.answers.borrow_mut().insert(call, reply);
        }
        if is_over {
            *wire = None;
        }
    }

    /// What the store says to a request. `Err`: nothing, for so long or for ever; `None`: that there is
    /// nothing at present.
    pub(crate) async fn ask(
        &self,
        request: &Request<'_>,
        limit: Duration,
    ) -> Result<Option<Reply>, Error> {
        let call = self.0.next.replace(self.0.next.get() + 1);
        if let Some(wire) = &mut *self.0.wire.borrow_mut() {
            wire.say(&postcard::to_allocvec(&(call, request)).unwrap());
        }
        let until = self.wake_after(limit);
        let answer = poll_fn(|_| {
            let answer = self.0.answers.borrow_mut().remove(&call);
            let in_vain = self.0.wire.borrow().is_none() || self.clock() >= until;
            if answer.is_some() || in_vain { Poll::Ready(answer) } else { Poll::Pending }
        });
        answer.await.ok_or_else(|| {
            self.0.was_silent.set(true);
            let reason = "it does not answer".to_owned();
            Error::Lost { peer: "the store".to_owned(), reason }
        })
    }

    /// Goes on when this is so, or after so long.
    pub(crate) async fn wait(&self, limit: Duration, is_so: impl Fn() -> bool) {
        let until = self.wake_after(limit);
        let look = |_: &mut Context<'_>| match is_so() || self.clock() >= until {
            true => Poll::Ready(()),
            false => Poll::Pending,
        };
        poll_fn(look).await;
    }

    /// Whether the store has ever not answered.
    pub(crate) fn was_silent(&self) -> bool {
        self.0.was_silent.get()
    }

    fn clock(&self) -> Duration {
        self.0.net.clock(self.0.host)
    }

    fn wake_after(&self, limit: Duration) -> Duration {
        let until = self.clock() + limit;
        self.0.net.alarm(self.0.host, until, 0);
        until
    }
}

/// A connection with what has come on it, and what is to go out.
pub(crate) struct Wire {
    pub(crate) socket: Socket,
    pub(crate) come: VecDeque<u8>,
    out: VecDeque<u8>,
}

impl Wire {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, come: VecDeque::new(), out: VecDeque::new() }
    }

    /// Adds bytes, and sends what there is room for. If the connection is over, that is read.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.out.extend(bytes);
        while !self.out.is_empty() {
            let Ok(count) = self.socket.write(self.out.make_contiguous()) else { return };
            self.out.drain(..count);
        }
    }

    /// Reads and writes what it can.
    ///
    /// # Errors
    /// When nothing comes any more.
    pub(crate) fn move_on(&mut self) -> Result<(), ()> {
        self.send(&[]);
        let mut scratch = [0; 512];
        loop {
            match self.socket.read(&mut scratch) {
                Ok(0) => return Err(()),
                Ok(count) => self.come.extend(&scratch[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(()),
            }
        }
    }

    fn say(&mut self, message: &[u8]) {
        self.send(&(message.len() as u32).to_le_bytes());
        self.send(message);
    }

    fn take_message(&mut self) -> Option<Vec<u8>> {
        let (len, rest) = self.come.make_contiguous().split_first_chunk()?;
        let len = u32::from_le_bytes(*len) as usize;
        let message = rest.get(..len)?.to_vec();
        self.come.drain(..4 + len);
        Some(message)
    }
}

/// What a rank does, as a future that is polled when something has happened on its host.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Goes on with a task. Whether it has come to its end.
pub(crate) fn go_on(task: &mut Task) -> bool {
    task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}
