//! Where the library of an engine may be that this crate was not built against.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};

use consort_sys::dl::NotLoaded;

/// How an engine's library is looked for.
pub(crate) struct Search {
    /// The variable that names the file.
    pub(crate) variable: &'static str,
    /// What the system is asked for, which knows where to look.
    pub(crate) system: &'static [&'static str],
    /// Launchers that are installed with it: it is below the folder above theirs.
    pub(crate) programs: &'static [&'static str],
    /// What these start on each host, to start the processes there.
    pub(crate) helpers: &'static [&'static str],
    /// The files below such a folder, or that of a Python environment.
    pub(crate) below: fn(&Path) -> Vec<PathBuf>,
    /// What is told of a folder that has none.
    pub(crate) pattern: &'static str,
}

impl Search {
    /// Where the library may be for this process.
    pub(crate) fn here(&self) -> Places {
        // Of a process that is another user's it is not told.
        let parent = std::fs::read_link(format!("/proc/{}/exe", parent_id())).ok();
        self.places(|name| std::env::var_os(name), parent.as_deref())
    }

    /// Where the library may be, by what the environment says, and by the program that has started this process: the
    /// file that is named and nothing else; or what the system finds by itself, and then what is below folders of
    /// programs and of Python environments. Nothing is run.
    pub(crate) fn places(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
        parent: Option<&Path>,
    ) -> Places {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        if let Some(named) = variable(self.variable) {
            let candidates = vec![named.into()];
            return Places { candidates, is_named: true, ..Places::default() };
        }
        let candidates = self.system.iter().map(PathBuf::from).collect();
        let mut places = Places { candidates, ..Places::default() };
        for prefix in self.prefixes(variable, parent) {
            let found = (self.below)(&prefix);
            if found.is_empty() {
                places.empty.push(prefix.join(self.pattern));
            }
            places.candidates.extend(found);
        }
        places
    }

    /// The folders that hold a `bin` and a `lib`, each once.
    fn prefixes(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
        parent: Option<&Path>,
    ) -> Vec<PathBuf> {
        let path = variable("PATH").unwrap_or_default();
        let above = |program: &&str| above_program(&path, program);
        let beside = self.programs.iter().filter_map(above);
        let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(&variable);
        let home = variable("HOME").map(|home| Path::new(&home).join(".local"));
        let all = parent
            .and_then(|parent| self.above_launcher(parent))
            .into_iter()
            .chain(beside)
            .chain(active.map(PathBuf::from))
            .chain(above_program(&path, "python3"))
            .chain(home);
        let mut once = Vec::new();
        for prefix in all {
            if !once.contains(&prefix) {
                once.push(prefix);
            }
        }
        once
    }

    /// The folder above that of the program that has started this process, if that is one of these.
    fn above_launcher(&self, parent: &Path) -> Option<PathBuf> {
        let is_called = |name: &&&str| parent.file_name() == Some(OsStr::new(**name));
        self.programs.iter().chain(self.helpers).find(is_called)?;
        parent.parent()?.parent().map(Path::to_owned)
    }
}

/// What to try, and where there was nothing to try.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// In this order.
    pub(crate) candidates: Vec<PathBuf>,
    /// Looked at without finding anything.
    pub(crate) empty: Vec<PathBuf>,
    /// Whether it is that of the variable, and nothing else.
    pub(crate) is_named: bool,
}

impl Places {
    /// That nothing of it was the library, after these were tried.
    pub(crate) fn exhausted(empty: Vec<PathBuf>, mut tried: Vec<(PathBuf, String)>) -> NotLoaded {
        tried.extend(empty.into_iter().map(|path| (path, "there is none".to_owned())));
        NotLoaded { tried }
    }
}

/// The folder above the one that has the first program of this name in a path.
fn above_program(path: &OsStr, program: &str) -> Option<PathBuf> {
    let bin = std::env::split_paths(path).find(|folder| folder.join(program).is_file())?;
    bin.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SEARCH: Search = Search {
        variable: "LIBRARY",
        system: &["libit.so.2", "libit.so"],
        programs: &["itexec"],
        helpers: &["it_proxy"],
        below: |prefix| {
            vec![prefix.join("lib/libit.so")].into_iter().filter(|it| it.is_file()).collect()
        },
        pattern: "lib/libit.so",
    };

    fn of(variables: &[(&str, &Path)]) -> Places {
        started_by(None, variables)
    }

    fn started_by(parent: Option<&Path>, variables: &[(&str, &Path)]) -> Places {
        let variable = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.as_os_str().to_owned())
        };
        SEARCH.places(variable, parent)
    }

    /// Makes a folder with the library, and with a program.
    fn put(prefix: &Path, program: &str) -> PathBuf {
        for (folder, name) in [("bin", program), ("lib", "libit.so")] {
            fs::create_dir_all(prefix.join(folder)).unwrap();
            fs::write(prefix.join(folder).join(name), "").unwrap();
        }
        prefix.join("lib/libit.so")
    }

    #[test]
    fn a_file_that_is_named_is_the_only_one_tried() {
        let named = Path::new("/somewhere/libit.so");
        let places = of(&[("LIBRARY", named), ("VIRTUAL_ENV", Path::new("/v"))]);
        let candidates = vec![named.to_owned()];
        assert_eq!(places, Places { candidates, empty: vec![], is_named: true });
    }

    #[test]
    fn without_an_environment_the_system_is_asked() {
        let places = of(&[("LIBRARY", Path::new(""))]);
        assert_eq!(places.candidates, ["libit.so.2", "libit.so"].map(PathBuf::from));
        assert!(places.empty.is_empty(), "{places:?}");
    }

    #[test]
    fn it_is_beside_the_launcher_that_has_started_the_process_before_others() {
        let folder = tempfile::tempdir().unwrap();
        let [started, own, other] =
            ["started", "own", "other"].map(|name| folder.path().join(name));
        let [by_launcher, by_path, elsewhere] =
            [&started, &own, &other].map(|prefix| put(prefix, "itexec"));
        let path = own.join("bin");
        for launcher in ["bin/itexec", "bin/it_proxy"] {
            let places = started_by(Some(&started.join(launcher)), &[("PATH", &path)]);
            assert_eq!(places.candidates[2..], [by_launcher.clone(), by_path.clone()]);
        }
        let places = started_by(Some(&other.join("bin/shell")), &[("PATH", &path)]);
        assert_eq!(places.candidates[2..], [by_path], "not {}", elsewhere.display());
    }

    #[test]
    fn each_place_is_looked_at_once_and_told_of_if_it_has_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let [active, conda, python, own, home] =
            ["active", "conda", "python", "own", "home"].map(|name| folder.path().join(name));
        let beside_python = put(&python, "python3");
        let beside_own = put(&own, "itexec");
        let in_conda = put(&conda, "anything");
        let folders = [folder.path().to_owned(), python.join("bin"), own.join("bin")];
        let path = std::env::join_paths(folders).unwrap();
        let places = of(&[
            ("VIRTUAL_ENV", &active),
            ("CONDA_PREFIX", &conda),
            ("PATH", Path::new(&path)),
            ("HOME", &home),
        ]);
        assert_eq!(places.candidates[2..], [beside_own, in_conda, beside_python]);
        assert_eq!(places.empty, [active, home.join(".local")].map(|it| it.join("lib/libit.so")));

        let places = of(&[("VIRTUAL_ENV", &python), ("PATH", Path::new(&path))]);
        assert_eq!(places.candidates.len(), 4, "{places:?}");
    }
}
