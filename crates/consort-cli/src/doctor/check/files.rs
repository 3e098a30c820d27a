//! Folders and the secret's file.

use crate::doctor::facts::Files;
use crate::doctor::finding::{Area, Finding};
use crate::doctor::words::bytes;

/// Whether temporary files can be written.
pub(crate) fn temporary(files: &Files) -> Finding {
    let folder = &files.temporary;
    let path = folder.path.display();
    if let Err(error) = &folder.written {
        let what = format!("nothing can be written in {path}: {error}");
        return Finding::bad(Area::Files, what, "set TMPDIR to a folder that can be written");
    }
    let Some(space) = folder.space else {
        return Finding::good(Area::Files, format!("{path} can be written"));
    };
    let what = format!("{path} can be written, {} free", bytes(space.free));
    if space.free < LITTLE {
        return Finding::warning(Area::Files, what, "make room, or set TMPDIR to another folder");
    }
    if space.no_exec {
        let todo = "programs there cannot be started (noexec), which compilers of PyTorch and others \
                    do: set TMPDIR to another folder";
        return Finding::warning(Area::Files, what, todo);
    }
    Finding::good(Area::Files, what)
}

/// Whether the job's secret can be read, if one was given.
pub(crate) fn secret(files: &Files) -> Option<Finding> {
    let file = files.secret.as_ref()?;
    Some(match &file.read {
        Ok(()) => Finding::good(
            Area::Files,
            format!("{} holds a secret that only its owner reads", file.path.display()),
        ),
        Err(error) => Finding::bad(
            Area::Files,
            error.clone(),
            "copy it from the host that made it (consort run shows where), and chmod 600 it",
        ),
    })
}

const LITTLE: u64 = 100 << 20;

#[cfg(test)]
mod tests {
    use consort_sys::memory::Space;

    use super::*;
    use crate::doctor::facts::files::{Folder, SecretFile};
    use crate::doctor::finding::Verdict;

    fn files(written: Result<(), String>, space: Option<Space>) -> Files {
        Files { temporary: Folder { path: "/tmp".into(), written, space }, secret: None }
    }

    #[test]
    fn a_temporary_folder_must_be_writable_and_should_be_roomy() {
        let verdict = |written, free, no_exec| {
            temporary(&files(written, Some(Space { total: 1 << 40, free, no_exec }))).verdict
        };
        assert_eq!(verdict(Ok(()), 1 << 33, false), Verdict::Good);
        assert_eq!(verdict(Ok(()), 1 << 20, false), Verdict::Warning);
        assert_eq!(verdict(Ok(()), 1 << 33, true), Verdict::Warning);
        assert_eq!(verdict(Err("read-only".into()), 1 << 33, false), Verdict::Bad);
        assert_eq!(temporary(&files(Ok(()), None)).verdict, Verdict::Good);
    }

    #[test]
    fn a_secret_is_judged_only_if_given() {
        let with = |read| {
            let secret = Some(SecretFile { path: "/s".into(), read });
            secret_of(&Files { secret, ..files(Ok(()), None) })
        };
        fn secret_of(files: &Files) -> Option<Verdict> {
            secret(files).map(|finding| finding.verdict)
        }
        assert_eq!(secret_of(&files(Ok(()), None)), None);
        assert_eq!(with(Ok(())), Some(Verdict::Good));
        assert_eq!(with(Err("others may read it".into())), Some(Verdict::Bad));
    }
}
