//! NVIDIA's own NCCL of the same version beside this library: a program that was made for the one runs with the other.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use consort_testkit::{Skip, skip};

use crate::compiled::{built, here, said_by, with_our_headers, words};

#[test]
fn both_export_the_same_names() {
    let (theirs, ours) = match exported_by_both() {
        Ok(both) => both,
        Err(reason) => return skip(reason),
    };
    let with_profiled = |name: &str| [name.to_owned(), format!("p{name}")];
    let mut absent: BTreeSet<String> = FOR_KERNELS.into_iter().flat_map(with_profiled).collect();
    absent.insert(INTERNAL.to_owned());
    assert_eq!(&theirs - &ours, absent);
    let is_of_driver = |name: &String| {
        name.strip_prefix("cu").is_some_and(|rest| rest.starts_with(|it: char| it.is_uppercase()))
    };
    let mut added = &ours - &theirs;
    added.retain(|name| !is_of_driver(name));
    assert_eq!(added, EXTENSIONS.map(str::to_owned).into());
}

#[test]
fn neither_gives_its_names_versions() {
    let (theirs, ours) = match exported_by_both() {
        Ok(both) => both,
        Err(reason) => return skip(reason),
    };
    let versioned: Vec<_> = theirs.union(&ours).filter(|name| name.contains('@')).collect();
    assert!(versioned.is_empty(), "{versioned:?}");
    // Where there are versions they are seen.
    let nvidia = nvidia().unwrap();
    let needed = symbols("--undefined-only", &nvidia.library()).unwrap();
    assert!(needed.iter().any(|name| name.contains("@GLIBC_")), "{needed:?}");
}

#[test]
fn both_headers_lay_things_out_in_the_same_way() {
    let nvidia = match nvidia() {
        Ok(nvidia) => nvidia,
        Err(reason) => return skip(reason),
    };
    let layout = here("tests/c/layout.c");
    assert_eq!(said_by(&layout, &with_our_headers()), said_by(&layout, &nvidia.with_headers()));
}

#[test]
fn both_headers_give_the_same_numbers_to_the_same_names() {
    let nvidia = match nvidia() {
        Ok(nvidia) => nvidia,
        Err(reason) => return skip(reason),
    };
    let ours = numbers_in(&fs::read_to_string(here("include/nccl.h")).unwrap());
    let theirs = numbers_in(&fs::read_to_string(nvidia.headers().join("nccl.h")).unwrap());
    assert!(ours.len() > 60, "{ours:?}");
    assert_eq!(&ours - &theirs, BTreeSet::new());
    assert_eq!(&theirs - &ours, BTreeSet::from([MAGIC.to_owned()]));
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("numbers.c");
    fs::write(&source, program_that_tells(&ours)).unwrap();
    assert_eq!(said_by(&source, &with_our_headers()), said_by(&source, &nvidia.with_headers()));
}

/// The names that a header gives numbers to: members of enumerations, and macros.
fn numbers_in(header: &str) -> BTreeSet<String> {
    let members = header.split([',', '{', '\n']).filter_map(|it| it.split_once('='));
    let macros = header.lines().filter_map(|line| line.strip_prefix("#define ")?.split_once(' '));
    let is_name = |name: &&str| {
        name.starts_with(['n', 'N']) && name.chars().all(|it| it.is_alphanumeric() || it == '_')
    };
    let names = members.chain(macros).map(|(name, _)| name.trim()).filter(is_name);
    names.filter(|name| !NO_NUMBERS.contains(name)).map(str::to_owned).collect()
}

/// A program in C that says which number each name stands for, and how versions are made to numbers.
fn program_that_tells(names: &BTreeSet<String>) -> String {
    let lines =
        names.iter().map(String::as_str).chain(["NCCL_VERSION(2, 8, 4)", "NCCL_VERSION(2, 9, 1)"]);
    let lines = lines.map(|name| format!("printf(\"{name} %lld\\n\", (long long)({name}));\n"));
    let body: String = lines.collect();
    format!("#include <stdio.h>\n#include <nccl.h>\nint main(void) {{\n{body}return 0;\n}}\n")
}

/// What NVIDIA's library exports, and what this one does.
fn exported_by_both() -> Result<(BTreeSet<String>, BTreeSet<String>), Skip> {
    let theirs = symbols("--defined-only", &nvidia()?.library())?;
    Ok((theirs, symbols("--defined-only", &built("libconsort_nccl.so"))?))
}

/// The names by which the dynamic linker knows things of a library, with `@` and a version behind those that have one.
fn symbols(which: &str, library: &Path) -> Result<BTreeSet<String>, Skip> {
    let mut nm = Command::new("nm");
    nm.args(["--dynamic", "--with-symbol-versions", which]).arg(library);
    let Ok(output) = nm.output() else { return Err(Skip::new("there is no `nm`")) };
    assert!(output.status.success(), "{}", words(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    Ok(text.lines().filter_map(|line| line.split_whitespace().last()).map(str::to_owned).collect())
}

/// NVIDIA's NCCL in the packages of a Python.
struct Nvidia {
    folder: PathBuf,
}

/// NVIDIA's, installed under `target/` if it is not there yet. What cannot be had on somebody's own machine is skipped;
/// where the tests decide, it has to be there.
fn nvidia() -> Result<Nvidia, Skip> {
    let made = Command::new(here("../../tools/nccl")).output().unwrap();
    if !made.status.success() {
        let reason = format!("NCCL could not be installed: {}", words(&made));
        assert!(std::env::var_os("CI").is_none(), "{reason}");
        return Err(Skip::new(reason));
    }
    let pythons = fs::read_dir(here("../../target/venv-nccl/lib")).unwrap();
    let folders = pythons.map(|python| python.unwrap().path().join("site-packages/nvidia/nccl"));
    let folder = folders.into_iter().find(|it| it.exists()).expect("it was installed");
    Ok(Nvidia { folder })
}

impl Nvidia {
    fn library(&self) -> PathBuf {
        self.folder.join("lib/libnccl.so.2")
    }

    fn headers(&self) -> PathBuf {
        self.folder.join("include")
    }

    /// For programs that include its headers, of which those for GPUs have some of the types. What the compiler thinks of
    /// them is NVIDIA's affair.
    fn with_headers(&self) -> Vec<OsString> {
        let cuda = here("tests/c/cuda");
        let folders = ["-I".into(), cuda.into(), "-I".into(), self.headers().into()];
        let types = ["-include", "nccl_device/impl/core__types.h", "-w"].map(OsString::from);
        folders.into_iter().chain(types).collect()
    }
}

/// They say what kernels need of a device communicator, and there is none.
const FOR_KERNELS: [&str; 6] = [
    "ncclGinBarrierCreateRequirement",
    "ncclGinInboxA2ACreateRequirement",
    "ncclGinOutboxCreateRequirement",
    "ncclLLA2ACalcSlots",
    "ncclLLA2ACreateRequirement",
    "ncclLsaBarrierCreateRequirement",
];
/// No header of NVIDIA's has it.
const INTERNAL: &str = "ncclResetDebugInitInternal";
/// What NCCL has not, in `consort_nccl.h`. Beside it there are functions of CUDA's driver.
const EXTENSIONS: [&str; 5] = [
    "consortNcclIdentity",
    "consortStreamCreate",
    "consortStreamDestroy",
    "consortStreamQuery",
    "consortStreamSynchronize",
];
/// NVIDIA's header says that it is for internal use only; the initializers have its number.
const MAGIC: &str = "NCCL_API_MAGIC";
/// A text, which is our own; and what `layout.c` looks into.
const NO_NUMBERS: [&str; 3] =
    ["NCCL_SUFFIX", "NCCL_CONFIG_INITIALIZER", "NCCL_SIM_INFO_INITIALIZER"];
