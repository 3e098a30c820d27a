//! Queues of calls: what a program that has no CUDA has for streams.
//!
//! Each has a thread of its own, which carries out one job after the other.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};

use consort_sys::origin::Origin;

use crate::failure::{Failure, Result, catch};
use crate::lock;
use crate::order::Order;
use crate::raw::Handle;
use crate::watched::{Held, Watched};

/// What a stream carries out.
type Job = Box<dyn FnOnce() -> Result<()> + Send>;

/// A queue of calls.
#[derive(Debug)]
pub(crate) struct Stream {
    number: usize,
    line: Arc<Line>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread works on, for as long as it does.
struct Line {
    /// Whose thread it is.
    origin: Origin,
    /// The driver's, in which it was made.
    context: Handle,
    state: Watched<State>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// How many it was ever given.
    given: u64,
    /// How many of them are done: all but those that wait, and the one that is being carried out.
    done: u64,
    /// The first thing that went wrong since somebody asked.
    failure: Option<Failure>,
    /// It ends when there is nothing left to do.
    is_closed: bool,
}

impl State {
    fn is_idle(&self) -> bool {
        self.done == self.given
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.lock();
        write!(f, "{} jobs", state.given - state.done)
    }
}

impl Stream {
    /// A new one, in a context of the driver's, or none.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub(crate) fn create(context: Handle) -> Result<Handle> {
        let line = Arc::new(Line { origin: Origin::here(), context, state: Watched::default() });
        let works_on = line.clone();
        let thread = thread::Builder::new()
            .name("consort-stream".to_owned())
            .spawn(move || works_on.work())
            .map_err(|error| {
                Failure::system(format!("there is no thread for a stream: {error}"))
            })?;
        let mut streams = lock(&STREAMS);
        streams.last += 1;
        let number = FIRST + streams.last * STEP;
        streams.lines.retain(|line| line.strong_count() > 0);
        streams.lines.push(Arc::downgrade(&line));
        let stream = Self { number, line, thread: Some(thread) };
        streams.all.insert(number, Arc::new(stream));
        Ok(Handle::new(number))
    }

    /// The one that C calls so; none for `NULL`, where calls are carried out at once, and for CUDA's other names
    /// of it.
    ///
    /// # Errors
    /// When there is none, and in a forked child, which has no thread for its parent's.
    pub(crate) fn find(handle: Handle) -> Result<Option<Arc<Self>>> {
        let stream = Self::known(handle)?;
        stream.as_ref().map_or(Ok(()), |stream| stream.check())?;
        Ok(stream)
    }

    fn known(handle: Handle) -> Result<Option<Arc<Self>>> {
        if handle.number() <= PER_THREAD {
            return Ok(None);
        }
        match lock(&STREAMS).all.get(&handle.number()) {
            Some(stream) => Ok(Some(stream.clone())),
            None => Err(Failure::argument(format!(
                "stream is {:#x}, which consortStreamCreate has not given, or was destroyed before: take one \
                 from there, or NULL",
                handle.number()
            ))),
        }
    }

    fn check(&self) -> Result<()> {
        if self.line.origin.is_here() { Ok(()) } else { Err(Failure::forked("stream")) }
    }

    /// Takes it from the program. What is still to be done is done; a forked child gives it up.
    pub(crate) fn destroy(handle: Handle) -> Result<()> {
        let Some(stream) = Self::known(handle)? else {
            return Err(Failure::argument("stream is NULL"));
        };
        lock(&STREAMS).all.remove(&handle.number());
        drop(stream);
        Ok(())
    }

    /// What it is told by.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Has it carry something out, after all that it has been given before. What it may wait for there has got its place
    /// before, which is what the order is for.
    pub(crate) fn push(&self, _order: &Order, job: impl FnOnce() -> Result<()> + Send + 'static) {
        let job = Box::new(job);
        let mut state = self.line.state.lock();
        state.jobs.push_back(job);
        state.given += 1;
        self.line.state.tell(state);
    }

    /// Says, when it is called, what has gone wrong since somebody asked.
    pub(crate) fn so_far(&self) -> impl FnOnce() -> Result<()> + Send + use<> {
        let line = self.line.clone();
        move || line.state.lock().failure.clone().map_or(Ok(()), Err)
    }

    /// Whether it has nothing to do.
    ///
    /// # Errors
    /// What went wrong, which stays until it is synchronized.
    pub(crate) fn is_idle(&self) -> Result<bool> {
        let state = self.line.state.lock();
        match (&state.failure, state.is_idle()) {
            (Some(failure), true) => Err(failure.clone()),
            (_, is_idle) => Ok(is_idle),
        }
    }

    /// Waits until all have done all that they were given so far.
    ///
    /// # Errors
    /// As [`synchronize`](Self::synchronize), of the first that says one.
    pub(crate) fn synchronize_all() -> Result<()> {
        let all: Vec<_> = lock(&STREAMS).all.values().cloned().collect();
        let done: Vec<_> = all.iter().map(|stream| stream.synchronize()).collect();
        done.into_iter().collect()
    }

    /// Waits until all of a context have done all that they were given so far, also those that were destroyed. What
    /// went wrong stays for who asks for it.
    pub(crate) fn settle_all_of(context: Handle) {
        let lines: Vec<_> = lock(&STREAMS).lines.iter().filter_map(Weak::upgrade).collect();
        let of_it = |line: &&Arc<Line>| line.context == context && line.origin.is_here();
        lines.iter().filter(of_it).for_each(|line| drop(line.settle()));
    }

    /// Waits until it has done all that it was given so far.
    ///
    /// # Errors
    /// The first thing that went wrong since it was last synchronized. In a forked child.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.check()?;
        self.line.settle().failure.take().map_or(Ok(()), Err)
    }
}

impl Drop for Stream {
    /// Whoever has a call for it has a hold on it, so that there are no more. If there is nothing to do, the
    /// thread ends at once, and is waited for; otherwise when it has done all.
    fn drop(&mut self) {
        if !self.line.origin.is_here() {
            // The thread is the parent's, and may have had the lock.
            std::mem::forget(self.thread.take());
            return;
        }
        let mut state = self.line.state.lock();
        state.is_closed = true;
        let is_idle = state.is_idle();
        self.line.state.tell(state);
        if let (Some(thread), true) = (self.thread.take(), is_idle) {
            // A job's panic is caught; there is nothing else to hear of.
            let _ = thread.join();
        }
    }
}

impl Line {
    /// Waits until all is done that it was given so far. What others give it meanwhile is not waited for, or there
    /// might be no end to it.
    fn settle(&self) -> Held<'_, State> {
        let mut state = self.state.lock();
        let last = state.given;
        while state.done < last {
            state = self.state.wait(state);
        }
        state
    }

    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            let Some(job) = state.jobs.pop_front() else {
                if state.is_closed {
                    return;
                }
                state = self.state.wait(state);
                continue;
            };
            drop(state);
            let result = catch(job);
            state = self.state.lock();
            state.done += 1;
            if let Err(failure) = result {
                state.failure.get_or_insert(failure);
            }
            self.state.tell(state);
            state = self.state.lock();
        }
    }
}

/// Keeps streams as they are until what it gives is dropped: see [`fork`](crate::fork).
pub(crate) fn hold_all() -> Box<dyn Any> {
    Box::new(lock(&STREAMS))
}

/// All that C knows of.
struct Streams {
    all: BTreeMap<usize, Arc<Stream>>,
    last: usize,
    /// With those that were destroyed and have something left to do.
    lines: Vec<Weak<Line>>,
}

static STREAMS: Mutex<Streams> =
    Mutex::new(Streams { all: BTreeMap::new(), last: 0, lines: Vec::new() });
/// What CUDA calls the default stream of each thread; 1 is the default stream of all.
const PER_THREAD: usize = 2;
/// No communicator has such a number.
const FIRST: usize = 0x5000_0000_0000;
const STEP: usize = 0x10;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn jobs_are_carried_out_in_order_and_what_went_wrong_is_told_once() {
        let handle = Stream::create(Handle::NULL).unwrap();
        let stream = Stream::find(handle).unwrap().unwrap();
        let (tell, told) = mpsc::channel();
        for number in 0..5 {
            let tell = tell.clone();
            stream.push(&Order::take(), move || {
                tell.send(number).unwrap();
                match number {
                    1 => Err(Failure::usage("one")),
                    2 => panic!("two"),
                    _ => Ok(()),
                }
            });
        }
        assert_eq!(stream.synchronize().unwrap_err().text, "one");
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        stream.synchronize().unwrap();
        assert!(stream.is_idle().unwrap());
        Stream::destroy(handle).unwrap();
        assert!(Stream::find(handle).unwrap_err().text.contains("destroyed before"));
        assert!(Stream::destroy(Handle::NULL).is_err());
    }

    #[test]
    fn what_a_stream_was_given_is_done_though_it_was_destroyed() {
        let handle = Stream::create(Handle::NULL).unwrap();
        let stream = Stream::find(handle).unwrap().unwrap();
        let (tell, told) = mpsc::channel::<()>();
        let (answer, answered) = mpsc::channel();
        stream.push(&Order::take(), move || {
            told.recv().unwrap();
            answer.send(7).unwrap();
            Ok(())
        });
        assert!(!stream.is_idle().unwrap());
        Stream::destroy(handle).unwrap();
        drop(stream);
        tell.send(()).unwrap();
        assert_eq!(answered.recv(), Ok(7));
    }

    #[test]
    fn who_waits_for_a_stream_does_not_wait_for_what_it_is_given_meanwhile() {
        let context = Handle::new(0x77);
        let handle = Stream::create(context).unwrap();
        let stream = Stream::find(handle).unwrap().unwrap();
        let is_over = Arc::new(Mutex::new(false));
        feed(&stream, &is_over);
        let (tell, told) = mpsc::channel();
        let awaited = stream.clone();
        let waiting = thread::spawn(move || {
            awaited.synchronize().unwrap();
            Stream::settle_all_of(context);
            tell.send(()).unwrap();
        });
        let heard = told.recv_timeout(Duration::from_secs(10));
        *lock(&is_over) = true;
        waiting.join().unwrap();
        heard.expect("there was always something to do");
        Stream::destroy(handle).unwrap();
    }

    /// Gives a stream a job that gives it the next, until it is over.
    fn feed(stream: &Arc<Stream>, is_over: &Arc<Mutex<bool>>) {
        let (fed, until) = (stream.clone(), is_over.clone());
        stream.push(&Order::take(), move || {
            if !*lock(&until) {
                feed(&fed, &until);
            }
            Ok(())
        });
    }
}
