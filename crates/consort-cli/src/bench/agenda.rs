//! What will be measured, and whether it can be: found out before any rank is started.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use consort_sys::dtype::ReduceOp;
use consort_sys::reduce::Kernel;

use super::args::{Args, PeerName};
use super::op::Op;
use super::point::Point;
use super::setting::{Setting, Transport};
use super::{bytes, peer};

/// What will be measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agenda {
    /// Everything that can be.
    pub(crate) points: Vec<Point>,
    /// What was asked for and has no meaning.
    pub(crate) omissions: Vec<String>,
    /// What is measured otherwise than it was asked for.
    pub(crate) remarks: Vec<String>,
    /// Where the peers are, if there are some.
    pub(crate) peers: PathBuf,
}

impl Agenda {
    /// Goes through what was asked for.
    ///
    /// # Errors
    /// When none of it can be measured, or not in this way: what to ask instead.
    pub(crate) fn of(args: &Args) -> Result<Self, String> {
        contradiction(args).map_or(Ok(()), Err)?;
        let mut agenda = Self::default();
        agenda.take_points(args)?;
        agenda.remarks.extend(ignored(args));
        agenda.remarks.extend(rounded(&args.asked()));
        if !args.against.is_empty() {
            agenda.peers = args.peers.clone().map_or_else(peer::folder, Ok)?;
            args.against.iter().try_for_each(|name| must_exist(name, &agenda.peers))?;
        }
        if let Some(path) = &args.plot {
            can_be_written(path)
                .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
        Ok(agenda)
    }

    fn take_points(&mut self, args: &Args) -> Result<(), String> {
        for point in args.points() {
            let kernel = Kernel::new(point.dtype, point.reduce, args.setting().ranks);
            match kernel {
                Err(why) if point.op.reduces() => {
                    let omission = format!("no {} of {}: {why}", point.op, point.dtype);
                    if !self.omissions.contains(&omission) {
                        self.omissions.push(omission);
                    }
                }
                _ => self.points.push(point),
            }
        }
        if self.points.is_empty() { Err(self.omissions.join("; ")) } else { Ok(()) }
    }
}

/// What excludes each other.
fn contradiction(args: &Args) -> Option<String> {
    let Setting { ranks, transport, hosts, encrypt, symmetric, .. } = args.setting();
    if encrypt && hosts == 1 && transport != Transport::Tcp {
        return Some("memory is not encrypted: give --transport tcp or --hosts, too".into());
    }
    if hosts > 1 && transport == Transport::Shm {
        return Some("hosts share no memory: leave out --hosts or --transport shm".into());
    }
    if symmetric && (hosts > 1 || transport == Transport::Tcp) {
        return Some(
            "symmetric memory is that of one host: leave out --symmetric, or --hosts and \
             --transport tcp"
                .into(),
        );
    }
    if hosts > 1 && !args.against.is_empty() {
        return Some("peers stay on this host: leave out --hosts or --against".into());
    }
    (ranks < hosts).then(|| format!("{ranks} ranks are too few for {hosts} hosts: give -n {hosts}"))
}

/// A way to combine numbers, where none are combined.
fn ignored(args: &Args) -> Option<String> {
    let points = args.points();
    let reduce = points.first()?.reduce;
    if reduce == ReduceOp::Sum || points.iter().any(|point| point.op.reduces()) {
        return None;
    }
    let mut ops: Vec<&str> = points.iter().map(|point| point.op.name()).collect();
    ops.dedup();
    Some(format!("--op {reduce} is ignored: nothing is combined by {}", ops.join(", ")))
}

/// Sizes that are no whole number of elements for each rank, in one line.
fn rounded(asked: &[(usize, Point)]) -> Option<String> {
    let differ =
        |(asked, point): &&(usize, Point)| *asked != point.bytes && point.op != Op::Barrier;
    let mut changes: Vec<String> = Vec::new();
    for (asked, point) in asked.iter().filter(differ) {
        let (from, to) = (bytes::write(*asked), bytes::write(point.bytes));
        let change = format!("{from} to {to} ({} {})", point.op, point.dtype);
        if !changes.contains(&change) {
            changes.push(change);
        }
    }
    let more = match changes.len() {
        0 => return None,
        1..=SHOWN => String::new(),
        count => format!(" and {} more", count - SHOWN),
    };
    changes.truncate(SHOWN);
    let changes = changes.join(", ");
    Some(format!("sizes are rounded to whole elements for each rank: {changes}{more}"))
}

/// Whether there is such a peer; if not, which there are.
pub(crate) fn must_exist(name: &PeerName, folder: &Path) -> Result<(), String> {
    let found = peers_in(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    if found.iter().any(|it| it == name.as_str()) {
        return Ok(());
    }
    let (name, folder, found) = (name.as_str(), folder.display(), found.join(", "));
    Err(format!("there is no peer {name:?} in {folder}: choose some of {found}"))
}

/// The programs there whose names are peers'.
fn peers_in(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let about = fs::metadata(entry.path())?;
        let is_program = about.is_file() && about.permissions().mode() & 0o111 != 0;
        if is_program && name.parse::<PeerName>().is_ok() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Tries, and leaves everything as it was.
pub(crate) fn can_be_written(path: &Path) -> io::Result<()> {
    let is_new = !path.exists();
    File::options().append(true).create(true).open(path)?;
    if is_new { fs::remove_file(path) } else { Ok(()) }
}

/// How many changes of sizes are told one by one.
const SHOWN: usize = 4;

#[cfg(test)]
mod tests;
