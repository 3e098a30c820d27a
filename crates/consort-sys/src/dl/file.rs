//! What is to be known of a file before the loader opens it.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Why the loader is not to open what is there. It would wait for ever for somebody to write into a pipe, a device may do
/// anything, and what is missing of a file ends the process that touches it.
pub(super) fn refusal(path: &Path) -> Option<String> {
    let metadata = path.metadata().ok().filter(|_| has_folder(path))?;
    let why = match () {
        () if metadata.is_dir() => "it is a folder: name the file in it",
        () if !metadata.is_file() => "it is no regular file",
        () if is_cut_short(path, metadata.len()) => "it is cut short: copy or install it again",
        () => return None,
    };
    Some(why.to_owned())
}

/// The library that a script for linkers leads to: beside it, or where the system looks.
pub(super) fn behind_script(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|_| has_folder(path) && path.is_file())?;
    let mut text = [0; 256];
    let read = File::open(path).and_then(|mut file| file.read(&mut text)).ok()?;
    let text = str::from_utf8(&text[..read]).ok()?;
    let (_, rest) = ["INPUT", "GROUP"].into_iter().find_map(|word| text.split_once(word))?;
    let rest = rest.trim_start().strip_prefix('(')?;
    let library = rest.split([' ', ',', ')']).find(|word| !word.is_empty())?;
    let beside = folder.join(library);
    // One without a folder may be where the system looks.
    let is_elsewhere = !beside.is_file() && !library.contains('/');
    Some(if is_elsewhere { library.into() } else { beside })
}

/// Whether a name says where the file is: one without a folder is not looked for in this process's own.
fn has_folder(path: &Path) -> bool {
    path.as_os_str().as_bytes().contains(&b'/')
}

/// Whether a library of this length is longer by its own account, as one is that was not copied to its end.
fn is_cut_short(path: &Path, len: u64) -> bool {
    let parts = File::open(path).and_then(|file| end_of_parts(&file));
    match parts {
        Ok(end) => end.is_some_and(|end| end > len),
        Err(error) => error.kind() == ErrorKind::UnexpectedEof,
    }
}

/// Where the last of the parts ends that the loader maps, in a file of the kind that it can load at all (ELF, 64 bits).
fn end_of_parts(file: &File) -> io::Result<Option<u64>> {
    let mut head = [0; 64];
    let read = file.read_at(&mut head, 0)?;
    if read < head.len() || !head.starts_with(b"\x7fELF\x02\x01") {
        return Ok(None);
    }
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    let (table, each, count) =
        (number(&head[32..40]), number(&head[54..56]), number(&head[56..58]));
    if each != PART {
        return Ok(None);
    }
    let mut parts = vec![0; (PART * count) as usize];
    file.read_exact_at(&mut parts, table)?;
    let ends = parts.chunks_exact(PART as usize).filter_map(|part| {
        let (kind, start, len) = (number(&part[..4]), number(&part[8..16]), number(&part[32..40]));
        // One that is all zeros is nowhere in the file.
        (kind == MAPPED && len > 0).then(|| start.saturating_add(len))
    });
    Ok(ends.max())
}

/// How long the description of a part is.
const PART: u64 = 56;
/// The kind of those that are mapped (`PT_LOAD`).
const MAPPED: u64 = 1;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::dl::Library;

    #[test]
    fn a_script_for_linkers_leads_to_the_library() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("libreal.so");
        for text in ["INPUT(libm.so.6)\n", "/* a script */\nGROUP ( libm.so.6 AS_NEEDED(x) )"] {
            fs::write(&script, text).unwrap();
            let library = Library::open([script.clone()]).unwrap();
            assert_eq!(library.path(), Path::new("libm.so.6"), "not beside it, so the system's");
        }
        let real = folder.path().join("libreal.so.1");
        fs::write(&real, "no library").unwrap();
        for text in ["INPUT(libreal.so.1)", &format!("INPUT ( {} )", real.display())] {
            fs::write(&script, text).unwrap();
            let error = Library::open([script.clone()]).unwrap_err();
            assert_eq!(error.tried[0].0, real, "{error}");
        }
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe.so");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        let (odd, whole) = ("it is no regular file", "it is a folder: name the file in it");
        for (path, why) in [(&*pipe, odd), (Path::new("/dev/null"), odd), (folder.path(), whole)] {
            let error = Library::open([path.to_owned()]).unwrap_err();
            assert_eq!(error.to_string(), format!("{}: {why}", path.display()));
        }
    }

    #[test]
    fn a_library_that_was_not_copied_to_its_end_is_not_opened() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps.split_whitespace().find(|word| word.contains("/libc.so")).unwrap();
        let whole = fs::read(path).unwrap();
        assert_eq!(refusal(Path::new(path)), None);
        let folder = tempfile::tempdir().unwrap();
        let cut = folder.path().join("cut.so");
        for (len, is_told) in [(whole.len() / 2, true), (3000, true), (100, true), (20, false)] {
            fs::write(&cut, &whole[..len]).unwrap();
            let error = Library::open([cut.clone()]).unwrap_err().to_string();
            assert_eq!(
                error.ends_with(": it is cut short: copy or install it again"),
                is_told,
                "{error}"
            );
        }
        // Numbers that make no sense are left to the loader.
        for at in [32, 54, 56] {
            let mut odd = whole[..3000].to_vec();
            odd[at..at + 2].fill(0xff);
            fs::write(&cut, &odd).unwrap();
            refusal(&cut);
        }
    }
}
