//! Who writes to the windows of a communicator, from its first window to its end.

use std::sync::Arc;

use consort::Group;

use super::Communicator;
use crate::failure::{Failure, Result};
use crate::lock;
use crate::status::Status;
use crate::window::{self, Service};

impl Communicator {
    /// Who writes to its windows. Every rank has to call it, in its turn.
    ///
    /// # Errors
    /// When a rank cannot, on all of them.
    pub(crate) fn service(&self) -> Result<Arc<Service>> {
        if let Some(service) = &*lock(&self.service) {
            return Ok(service.clone());
        }
        // It is not locked while the ranks meet: whoever ends the communicator looks at it, too.
        let group = self.at_work()?.group;
        let part = group.split(Some(0), 0)?;
        let part = part.ok_or_else(|| Failure::usage("there is no group for windows"))?;
        let started = Arc::new(agree(&group, Service::start(part))?);
        *lock(&self.service) = Some(started.clone());
        Ok(started)
    }

    /// Who writes to its windows, if there was one ever.
    ///
    /// # Errors
    /// When there was none.
    pub(crate) fn service_there_is(&self) -> Result<Arc<Service>> {
        lock(&self.service).clone().ok_or_else(|| {
            Failure::usage(format!(
                "{} has had no window: signals need one, from ncclCommWindowRegister",
                self.name()
            ))
        })
    }

    /// Ends what comes for its windows, when it has ended itself. When it returns nobody writes to them any more, and none
    /// that is still being made keeps memory.
    pub(super) fn end_service(&self, why: &str) {
        let service = lock(&self.service).clone();
        if let Some(service) = service {
            service.abort(why);
            service.rest();
        }
        // One that starts now is given no window: whoever makes one looks at the communicator first.
        window::let_go_all_of(self.number);
    }
}

/// What a rank has made, if all could make theirs. Every rank has to call it, also one that could not.
///
/// # Errors
/// When one could not: on that one why, on the others which it is, too.
fn agree<T>(group: &Group, made: Result<T>) -> Result<T> {
    let why = made.as_ref().err().map(|failure| failure.text.as_str());
    let told = hear_of_trouble(group, why);
    let made = made?;
    match told? {
        None => Ok(made),
        Some((rank, why)) => Err(Failure {
            status: Status::REMOTE_ERROR,
            text: format!("rank {rank} could not have a window: {why}"),
        }),
    }
}

/// Tells the other ranks why this one could not do something, if it could not. Gives the first rank that could not, with
/// its reason.
fn hear_of_trouble(group: &Group, why: Option<&str>) -> Result<Option<(usize, String)>> {
    let why = why.map(|why| &why.as_bytes()[..why.len().min(LONGEST)]);
    // One more than the text has, so that a reason without words is one, too.
    let length = why.map_or(0, |why| why.len() as u64 + 1);
    let mut lengths = vec![0_u64; group.world()];
    group.all_gather(&[length], &mut lengths)?;
    let Some(rank) = lengths.iter().position(|&length| length > 0) else { return Ok(None) };
    // Others say how long theirs are, and not how much room there is: all hold them to the same bound.
    let held = |length: u64| length.saturating_sub(1).min(LONGEST as u64) as usize;
    // On the way all of them have the length of the longest.
    let longest = lengths.iter().copied().map(held).max().unwrap_or_default();
    let mut mine = why.unwrap_or_default().to_vec();
    mine.resize(longest, 0);
    let mut all = vec![0_u8; longest * group.world()];
    group.all_gather(&mine, &mut all)?;
    let its = &all[rank * longest..][..held(lengths[rank])];
    Ok(Some((rank, String::from_utf8_lossy(its).into_owned())))
}

/// How many bytes of a rank's reason the others hear.
const LONGEST: usize = 4096;

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use std::thread;

    use super::*;
    use crate::config::Settings;
    use crate::gathering::Gathering;
    use crate::membership;
    use crate::memory::{self, Region};
    use crate::raw::Buffer;
    use crate::window::Window;

    /// What a program has that is just making a window, on one rank.
    struct Maker {
        comm: Arc<Communicator>,
        memory: Buffer,
        mine: Region,
        place: window::Place,
    }

    impl Maker {
        fn new() -> Self {
            let comm = Communicator::asked_for(Settings::default(), None);
            comm.begin_to_form();
            comm.form(membership::meet(&membership::invite().unwrap(), 0, 1)).unwrap();
            let memory = memory::allocate(memory::PAGE).unwrap();
            // SAFETY: it is there until it is freed.
            let memory = unsafe { Buffer::from_raw(memory.cast()) };
            let mine = Window::check(memory, memory::PAGE, 0).unwrap();
            let hold = memory::hold("buff", mine).unwrap();
            let place = window::reserve(comm.number, hold);
            Self { comm, memory, mine, place }
        }

        fn agree(&self) -> Window {
            let group = self.comm.at_work().unwrap().group;
            let service = self.comm.service().unwrap();
            Window::open(&service, &group, self.comm.number, self.mine, 0).unwrap()
        }
    }

    #[test]
    fn a_window_keeps_its_memory_from_when_it_is_asked_for() {
        let maker = Maker::new();
        let is_kept =
            || memory::free(maker.memory).is_err_and(|it| it.text.contains("a window on it"));
        assert!(is_kept());
        let (window, handle) = (maker.agree(), maker.place.handle());
        maker.place.settle(window);
        assert!(is_kept());
        window::forget(handle);
        memory::free(maker.memory).unwrap();
        maker.comm.leave();
    }

    #[test]
    fn a_window_that_does_not_come_to_be_keeps_nothing() {
        let Maker { comm, memory, place, .. } = Maker::new();
        let handle = place.handle();
        assert!(window::known(handle).is_err());
        drop(place);
        memory::free(memory).unwrap();
        comm.leave();
    }

    #[test]
    fn whoever_ends_a_communicator_lets_go_of_windows_that_wait_for_their_turn() {
        let ends: [fn(&Communicator); 2] = [|comm| comm.abort(), |comm| comm.revoke().unwrap()];
        for end in ends {
            let maker = Maker::new();
            end(&maker.comm);
            memory::free(maker.memory).unwrap();
            maker.comm.leave();
        }
    }

    #[test]
    fn whoever_ends_a_communicator_lets_go_of_a_window_that_all_ranks_have_just_agreed_on() {
        let ends: [fn(&Communicator); 2] = [|comm| comm.abort(), |comm| comm.revoke().unwrap()];
        for end in ends {
            let maker = Maker::new();
            let window = maker.agree();
            end(&maker.comm);
            maker.place.settle(window);
            memory::free(maker.memory).unwrap();
            maker.comm.leave();
        }
    }

    /// What the first of two ranks hears when the second does this.
    fn heard(second: impl FnOnce(&Group) + Send) -> Option<(usize, String)> {
        let gathering = Gathering::of(2).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| second(&gathering.meet(1).unwrap().group));
            hear_of_trouble(&gathering.meet(0).unwrap().group, None).unwrap()
        })
    }

    #[test]
    fn a_rank_that_could_not_is_heard_of_with_and_without_words() {
        let telling = |why: Option<&'static str>| {
            heard(move |group| {
                hear_of_trouble(group, why).unwrap();
            })
        };
        assert_eq!(telling(None), None);
        assert_eq!(telling(Some("it rains")), Some((1, "it rains".to_owned())));
        assert_eq!(telling(Some("")), Some((1, String::new())));
    }

    #[test]
    fn nobody_makes_more_room_for_words_than_there_may_be() {
        let long = "x".repeat(LONGEST);
        let told = heard(|group| {
            hear_of_trouble(group, Some(&"x".repeat(LONGEST + 1))).unwrap();
        });
        assert_eq!(told, Some((1, long.clone())));
        let told = heard(|group| {
            group.all_gather(&[u64::MAX], &mut [0; 2]).unwrap();
            group.all_gather(&[b'x'; LONGEST], &mut [0; 2 * LONGEST]).unwrap();
        });
        assert_eq!(told, Some((1, long)));
    }
}
