//! The rank's side.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{FallocateFlags, FlockOperation, MemfdFlags, fallocate, fcntl_lock, memfd_create};

use super::entry::Word;
use super::layout::{GROUPS, Group, Layout, MAGIC, Page, VERSION, group, head};
use super::map::Map;
use super::site::Sites;
use super::ticks::{Moment, Ticks};

/// Who a rank is.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Its number in the world.
    pub rank: u32,
    /// How many ranks there are.
    pub world: u32,
    /// The round of the job.
    pub epoch: u64,
    /// The job's name.
    pub job: &'a str,
    /// Whether it notes from where in its program calls are made.
    pub sites: bool,
}

/// Where a rank writes down what it does.
#[derive(Debug)]
pub struct Recording {
    map: Map,
    /// If it is a file's. It is locked: readers see by that whether this process is alive.
    file: Option<File>,
    ticks: Ticks,
    /// After so many ticks the time is noted again.
    while_ago: u64,
    places: Mutex<Places>,
    /// If it notes from where calls are made.
    sites: Option<Mutex<Sites>>,
}

impl Recording {
    /// Records in a new file of this name, in the place of an older one.
    ///
    /// # Errors
    /// When it cannot be made, or there is no room for it.
    pub fn in_file(path: &Path, about: &About<'_>) -> io::Result<Arc<Self>> {
        // Nobody finds a file that is not yet one.
        let unready = path.with_extension(format!("{}.new", std::process::id()));
        let made = Self::make_file(&unready, about)
            .and_then(|made| fs::rename(&unready, path).map(|()| made));
        if made.is_err() {
            let _ = fs::remove_file(&unready);
        }
        made
    }

    /// Records in memory that ends with this process: in a file without a name, so that others can
    /// [read](path_by_descriptor) it meanwhile, or where there are none in memory that nobody else sees.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn private(about: &About<'_>) -> io::Result<Arc<Self>> {
        let unnamed = memfd_create("consort-record", MemfdFlags::CLOEXEC);
        let shared = unnamed.map_err(io::Error::from).and_then(|it| Self::fill(it.into(), about));
        shared.or_else(|_| Ok(Self::new(Map::private()?, None, about)))
    }

    /// The descriptor by which the others of this host find it, if it is in a file:
    /// [`path_by_descriptor`].
    pub fn descriptor(&self) -> Option<u32> {
        u32::try_from(self.file.as_ref()?.as_raw_fd()).ok()
    }

    fn make_file(path: &Path, about: &About<'_>) -> io::Result<Arc<Self>> {
        let mut options = File::options();
        Self::fill(options.read(true).write(true).create_new(true).mode(0o600).open(path)?, about)
    }

    /// Records in a file that is empty yet.
    fn fill(file: File, about: &About<'_>) -> io::Result<Arc<Self>> {
        file.set_len(size_of::<Layout>() as u64)?;
        // What is written later must have its memory now: a full file system would kill the writer.
        let taken = if about.sites { offset_of!(Layout, groups) } else { size_of::<Page>() };
        fallocate(&file, FallocateFlags::empty(), 0, taken as u64)?;
        fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let map = Map::of_file(&file)?;
        Ok(Self::new(map, Some(file), about))
    }

    fn new(map: Map, file: Option<File>, about: &About<'_>) -> Arc<Self> {
        let ticks = Ticks::best();
        let head = &map.head;
        head.set(head::VERSION, VERSION);
        head.set(head::RANK, u64::from(about.world) << 32 | u64::from(about.rank));
        head.set(head::EPOCH, about.epoch);
        head.set(head::PROCESS, u64::from(std::process::id()));
        head.set(head::RATE, ticks.nanoseconds().to_bits());
        head.set_text(head::JOB, about.job);
        write_moment(head, head::FIRST, Moment::now(ticks));
        head.set(head::MAGIC, MAGIC);
        let while_ago = ticks.in_time(Duration::from_secs(1));
        let sites = about.sites.then(Mutex::default);
        Arc::new(Self { map, file, ticks, while_ago, places: Mutex::default(), sites })
    }

    /// Begins the journal of a group in which this rank has this one, and whose ranks have these in the
    /// world. `None` if this rank is in too many groups.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn journal(
        self: &Arc<Self>,
        name: &str,
        rank: u32,
        members: &[u32],
    ) -> io::Result<Option<Journal>> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = places.take() else { return Ok(None) };
        if let Err(error) = self.reserve(place) {
            places.give_back(place);
            return Err(error);
        }
        // Others may have begun one meanwhile; those who read look at this many.
        self.map.head.set(head::USED, places.used as u64);
        drop(places);
        introduce(&self.map.groups[place], name, rank, members);
        self.note_time();
        let (recording, [queued, site]) = (self.clone(), [const { AtomicU64::new(0) }; 2]);
        Ok(Some(Journal { recording, place, queued, site }))
    }

    /// Says that this rank leaves in good order.
    pub fn take_leave(&self) {
        self.note_time();
        self.map.head.set(head::LEFT, 1);
    }

    /// All that is in it, as a reader finds it.
    pub(super) fn layout(&self) -> &Layout {
        &self.map
    }

    /// The number of a site, if it notes them: 0 if it does not, or has too many.
    #[inline]
    fn number_of(&self, site: Option<&'static Location<'static>>) -> u16 {
        match (&self.sites, site) {
            (Some(sites), Some(site)) => self.look_up(sites, site),
            _ => 0,
        }
    }

    #[cold]
    fn look_up(&self, sites: &Mutex<Sites>, site: &'static Location<'static>) -> u16 {
        let mut sites = sites.lock().unwrap_or_else(PoisonError::into_inner);
        sites.number_of(site, &self.map.sites, |written| {
            self.map.head.set(head::SITES, written as u64);
        })
    }

    /// Takes the memory of a group's place, which otherwise would be taken when it is first written.
    fn reserve(&self, place: usize) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let start = offset_of!(Layout, groups) + place * size_of::<Group>();
        Ok(fallocate(file, FallocateFlags::empty(), start as u64, size_of::<Group>() as u64)?)
    }

    /// Notes what the ticks are on other clocks if that was long ago.
    #[inline]
    fn note_time_again(&self, now: u64) {
        if now.saturating_sub(self.map.head.get(head::LATEST + 1)) > self.while_ago {
            self.note_time();
        }
    }

    /// Notes what the ticks are on other clocks, unless somebody is at it.
    #[cold]
    fn note_time(&self) {
        let Ok(_alone) = self.places.try_lock() else { return };
        let stamp = self.map.head.get(head::LATEST);
        self.map.head.set(head::LATEST, stamp.wrapping_add(1));
        write_moment(&self.map.head, head::LATEST + 1, Moment::now(self.ticks));
        self.map.head.set(head::LATEST, stamp.wrapping_add(2));
    }
}

/// Where another process of this host finds a recording that has [this descriptor](Recording::descriptor)
/// in the process with this number, while that lives and lets itself be looked at.
pub fn path_by_descriptor(process: u32, descriptor: u32) -> PathBuf {
    format!("/proc/{process}/fd/{descriptor}").into()
}

/// What a rank does in one group. One thread at a time carries out a group's calls, and writes them
/// here; if two did, readers would find nonsense, but nothing worse would happen.
#[derive(Debug)]
pub struct Journal {
    recording: Arc<Recording>,
    place: usize,
    /// When the call that is begun next was queued, if it was.
    queued: AtomicU64,
    /// From where it was made then.
    site: AtomicU64,
}

impl Journal {
    /// A call begins, which is this one of the group's, from 1, and was made here, if that is known.
    #[inline]
    pub fn begin(&self, number: u64, call: [u64; 2], site: Option<&'static Location<'static>>) {
        let queued = self.queued.read();
        let mut site = self.recording.number_of(site);
        if queued != 0 {
            self.queued.write(0);
            site = self.site.read() as u16;
        }
        let began = self.recording.ticks.now();
        self.group().entry(number).begin(number, call, queued, began, site);
        self.recording.note_time_again(began);
    }

    /// The call that is being carried out waits for a rank of the group.
    pub fn wait_for(&self, number: u64, rank: u32) {
        self.group().entry(number).wait_for(number, rank);
        self.recording.note_time_again(self.recording.ticks.now());
    }

    /// It has ended, and had so many bytes to move. It has combined numbers for so long, by a
    /// [`Stopwatch`](super::Stopwatch).
    #[inline]
    pub fn end(&self, number: u64, bytes: u64, is_good: bool, combined: u64) {
        let (group, now) = (self.group(), self.recording.ticks.now());
        let began = group.entry(number).end(now, is_good, combined);
        group.head.add(group::BYTES, bytes);
        group.head.add(group::BUSY, now.saturating_sub(began));
        group.head.add(group::ENDED, 1);
        if combined != 0 {
            group.head.add(group::COMBINED, combined);
        }
        if !is_good {
            group.head.add(group::FAILED, 1);
        }
    }

    /// From where a call was made: file and line, if that was noted and it is one of the last.
    pub fn site(&self, number: u64) -> Option<String> {
        let entry = self.group().entry(number);
        let sites = self.recording.sites.as_ref().filter(|_| entry.number() == number)?;
        sites.lock().unwrap_or_else(PoisonError::into_inner).text_of(entry.site())
    }

    /// Calls were queued, up to this one.
    pub fn queue(&self, last: u64) {
        self.group().head.set(group::QUEUED, last);
    }

    /// The call that is begun next was made here, and queued for so long.
    pub fn was_queued(&self, time: Duration, site: Option<&'static Location<'static>>) {
        let ticks = self.recording.ticks;
        self.site.write(self.recording.number_of(site).into());
        self.queued.write(ticks.now().saturating_sub(ticks.in_time(time)));
    }

    #[inline]
    fn group(&self) -> &Group {
        &self.recording.map.groups[self.place]
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.group().head.set(group::LEFT, 1);
        let mut places = self.recording.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.give_back(self.place);
    }
}

/// Which groups' places are free.
#[derive(Debug, Default)]
struct Places {
    /// So many have ever been used.
    used: usize,
    /// Those of them that were left, the longest ago first.
    left: VecDeque<usize>,
}

impl Places {
    fn take(&mut self) -> Option<usize> {
        if self.used < GROUPS {
            self.used += 1;
            return Some(self.used - 1);
        }
        self.left.pop_front()
    }

    fn give_back(&mut self, place: usize) {
        self.left.push_back(place);
    }
}

/// Writes who a group is, in the place of another that was left.
fn introduce(place: &Group, name: &str, rank: u32, members: &[u32]) {
    let Group { head, ring } = place;
    let stamp = head.get(group::STAMP);
    head.set(group::STAMP, stamp + 1);
    ring.iter().for_each(super::entry::Entry::clear);
    let sums = [group::BYTES, group::BUSY, group::ENDED, group::FAILED, group::COMBINED];
    for word in [group::LEFT, group::QUEUED].into_iter().chain(sums) {
        head.set(word, 0);
    }
    head.set_text(group::NAME, name);
    head.set(group::RANK, (members.len() as u64) << 32 | u64::from(rank));
    let listed = if members.len() <= group::MOST_MEMBERS { members } else { &[] };
    head.set(group::LISTED, listed.len() as u64);
    for (place, pair) in listed.chunks(2).enumerate() {
        let second = pair.get(1).copied().unwrap_or_default();
        head.set(group::MEMBERS + place, u64::from(second) << 32 | u64::from(pair[0]));
    }
    head.set(group::STAMP, stamp + 2);
}

fn write_moment(head: &Page, place: usize, moment: Moment) {
    let Moment { ticks, monotonic, wall } = moment;
    for (place, word) in (place..).zip([ticks, monotonic, wall]) {
        head.set(place, word);
    }
}
