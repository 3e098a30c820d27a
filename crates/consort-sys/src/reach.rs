//! Reading another process's private memory where it is.
//!
//! The kernel copies from one process to another in one go, where going through shared memory takes
//! two. It allows that between processes of one user, unless the system's rules say otherwise
//! (Yama's `ptrace_scope`, a container's filter): so it has to be tried. Each process lights a
//! [`Beacon`], and whoever [sees](Reach::try_out) it can reach that process's memory.
//!
//! Nobody's memory is read that did not say where: the address comes from its owner, with every
//! call anew.

use std::fmt;

use rustix::io::Errno;

use crate::view::Target;

/// Something for other processes to try to read.
#[derive(Debug)]
pub struct Beacon {
    light: Box<u64>,
}

/// Where a beacon is, and what is to be seen there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Its place in its process's memory.
    pub address: u64,
    /// What is written there.
    pub light: u64,
}

impl Beacon {
    /// Lights one.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn light() -> Result<Self, getrandom::Error> {
        Ok(Self { light: Box::new(getrandom::u64()?) })
    }

    /// What the others need to know.
    pub fn sight(&self) -> Sight {
        let address = (&raw const *self.light).expose_provenance() as u64;
        Sight { address, light: *self.light }
    }
}

/// Another process whose memory can be read.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    process: i32,
}

/// Why another process's memory could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread(Errno);

impl Unread {
    /// It may not be read from here.
    pub const FORBIDDEN: Self = Self(Errno::PERM);

    /// Whether the process has ended.
    pub fn is_its_end(self) -> bool {
        self.0 == Errno::SRCH
    }

    /// Whether the process may have ended, or be about to: its memory goes before it is known to
    /// have ended.
    pub fn may_be_its_end(self) -> bool {
        matches!(self.0, Errno::SRCH | Errno::FAULT)
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        match self.0 {
            Errno::PERM | Errno::ACCESS => f.write_str(
                "; it could be read at the meeting, so one of the two has given up rights since \
                 (setuid, capabilities, PR_SET_DUMPABLE): ranks have to do that before init",
            ),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Unread {}

impl Reach {
    /// Whether the memory of a process can be read from here: whether its beacon can be seen.
    pub fn try_out(process: u32, sight: Sight) -> Option<Self> {
        let reach = Self { process: i32::try_from(process).ok().filter(|&number| number > 0)? };
        let mut seen = [0; size_of::<u64>()];
        reach.read(sight.address, Target::from(&mut seen[..])).ok()?;
        (u64::from_ne_bytes(seen) == sight.light).then_some(reach)
    }

    /// Fills a target with what is at this address of the process's memory.
    ///
    /// # Errors
    /// When the process has ended, or there is no such memory. The target may have been written in
    /// part.
    pub fn read(&self, address: u64, into: Target<'_>) -> Result<(), Unread> {
        let read = self.read_all(address, into);
        // Even what was read in part is somebody's memory, and has to be of its type.
        into.make_truths();
        read
    }

    fn read_all(&self, address: u64, into: Target<'_>) -> Result<(), Unread> {
        let mut done = 0;
        while done < into.len() {
            let rest = into.slice(done..into.len());
            let from = address.checked_add(done as u64).ok_or(Unread(Errno::INVAL))?;
            done += self.read_some(from, rest)?;
        }
        Ok(())
    }

    /// Reads as much as the kernel gives at a time.
    fn read_some(&self, address: u64, into: Target<'_>) -> Result<usize, Unread> {
        let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let start = std::ptr::without_provenance_mut(address as usize);
        let remote = libc::iovec { iov_base: start, iov_len: into.len() };
        // SAFETY: the kernel writes at most so many bytes of the target, which is writable and to
        // which no reference exists, and checks by itself what it reads of the other process.
        let read = unsafe { libc::process_vm_readv(self.process, &local, 1, &remote, 1, 0) };
        match read {
            0 => Err(Unread(Errno::FAULT)),
            _ => usize::try_from(read).map_err(|_| {
                let said = std::io::Error::last_os_error();
                Unread(Errno::from_io_error(&said).unwrap_or(Errno::IO))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> u32 {
        std::process::id()
    }

    #[test]
    fn what_is_at_an_address_is_read() {
        let beacon = Beacon::light().unwrap();
        let reach = Reach::try_out(me(), beacon.sight()).expect("a process may read itself");
        let there: Vec<u8> = (0..300_000_u32).map(|i| (i * 7 % 251) as u8).collect();
        let mut here = vec![0; there.len()];
        reach.read(there.as_ptr().addr() as u64, Target::from(&mut here[..])).unwrap();
        assert_eq!(here, there);
    }

    #[test]
    fn truths_stay_truths() {
        use crate::dtype::Element;
        let beacon = Beacon::light().unwrap();
        let reach = Reach::try_out(me(), beacon.sight()).unwrap();
        let there = [0_u8, 1, 2, 255];
        let mut here = [false; 4];
        reach.read(there.as_ptr().addr() as u64, bool::target(&mut here)).unwrap();
        assert_eq!(here, [false, true, true, true]);
    }

    #[test]
    fn truths_stay_truths_if_only_a_part_can_be_read() {
        use crate::dtype::Element;
        let page = rustix::param::page_size();
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let pages = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                2 * page,
                rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
                rustix::mm::MapFlags::PRIVATE,
            )
        }
        .unwrap();
        // SAFETY: the first page is writable, and nobody else knows of it.
        unsafe { pages.cast::<u8>().write_bytes(0xee, page) };
        // SAFETY: nothing refers to the second page.
        unsafe { rustix::mm::munmap(pages.wrapping_byte_add(page), page) }.unwrap();
        let beacon = Beacon::light().unwrap();
        let reach = Reach::try_out(me(), beacon.sight()).unwrap();
        let mut here = vec![false; 2 * page];
        assert!(reach.read(pages.addr() as u64, bool::target(&mut here)).is_err());
        // SAFETY: truths are bytes.
        let bytes = unsafe { std::slice::from_raw_parts(here.as_ptr().cast::<u8>(), page) };
        assert!(bytes.iter().all(|&byte| byte == 1), "it is read in part, and of its type");
        // SAFETY: the first page is still mapped, and used no more.
        unsafe { rustix::mm::munmap(pages, page) }.unwrap();
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        let beacon = Beacon::light().unwrap();
        let reach = Reach::try_out(me(), beacon.sight()).unwrap();
        let mut here = [0_u8; 16];
        for address in [0, 8, u64::MAX - 8, u64::MAX] {
            assert!(reach.read(address, Target::from(&mut here[..])).is_err(), "{address:x}");
        }
    }

    #[test]
    fn a_process_that_was_killed_may_have_ended_and_one_that_is_shut_says_why() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let reach = Reach { process: i32::try_from(child.id()).unwrap() };
        let mut here = [0_u8; 8];
        let nowhere = reach.read(8, Target::from(&mut here[..])).unwrap_err();
        child.kill().unwrap();
        child.wait().unwrap();
        let gone = reach.read(8, Target::from(&mut here[..])).unwrap_err();
        assert!(nowhere.may_be_its_end() && !nowhere.is_its_end(), "{nowhere}");
        assert!(gone.may_be_its_end() && gone.is_its_end(), "{gone}");
        assert!(!Unread::FORBIDDEN.may_be_its_end());
        let words = Unread::FORBIDDEN.to_string();
        assert!(words.starts_with("Operation not permitted"), "{words}");
        assert!(words.ends_with("ranks have to do that before init"), "{words}");
    }

    #[test]
    fn who_has_another_light_is_not_who_was_looked_for() {
        let beacon = Beacon::light().unwrap();
        let sight = beacon.sight();
        assert!(Reach::try_out(me(), Sight { light: !sight.light, ..sight }).is_none());
        assert!(Reach::try_out(0, sight).is_none());
        assert!(Reach::try_out(u32::MAX, sight).is_none());
    }
}
