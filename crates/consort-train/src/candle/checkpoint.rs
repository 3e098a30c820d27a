//! Models that are kept in files, in the safetensors format that candle and others read.
//!
//! One rank writes and reads; the others need not see the file. Whatever fails there is the same error on
//! every rank.
//!
//! ```
//! use candle_core::DType;
//! use candle_nn::{VarMap, linear};
//! use consort_train::candle::{DistributedDataParallel, checkpoint};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let group = consort::Builder::new().rank(0).world(1).init()?;
//! # let folder = std::env::temp_dir().join(format!("consort-checkpoint-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let path = folder.join("model.safetensors");
//! let variables = VarMap::new();
//! let build = |vb: candle_nn::VarBuilder<'static>| linear(3, 2, vb.pp("layer"));
//! let (ddp, model) = DistributedDataParallel::new(&group, &variables, DType::F32, build)?;
//! checkpoint::save_with(&ddp, &path, [("epoch", "7")])?;
//!
//! // Later, perhaps on other machines and with another number of ranks:
//! let notes = checkpoint::load(&ddp, &path)?;
//! let epoch: u64 = notes["epoch"].parse()?;
//! # assert_eq!(epoch, 7);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as Any;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use candle_core::DType;
use safetensors::SafeTensors;

use crate::agreement::{gather, in_lines};
use crate::candle::model::{Model, set};
use crate::candle::parallel::DistributedDataParallel;
use crate::candle::together::all_well;
use crate::error::Result;

/// Keeps the parameters and buffers of a model in a file, which rank 0 writes. All ranks have to call it,
/// and go on when it is done. What an optimizer remembers is not in it.
///
/// A file of that name is replaced when the new one is complete: at no time is there half of one.
///
/// # Errors
/// [`Elsewhere`](crate::Error::Elsewhere), the same on every rank, when the file cannot be written; and why
/// the group has ended, if it has.
pub fn save(ddp: &DistributedDataParallel, path: impl AsRef<Path>) -> Result<()> {
    save_with(ddp, path, [])
}

/// The same with notes, such as how far training has come. Those of rank 0 are written.
///
/// # Errors
/// As [`save`].
pub fn save_with<'a>(
    ddp: &DistributedDataParallel,
    path: impl AsRef<Path>,
    notes: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<()> {
    let (group, path) = (ddp.reducer().group(), path.as_ref());
    let mut failure = None;
    if group.rank() == 0 {
        let notes = [(MAKER, env!("CARGO_PKG_VERSION"))].into_iter().chain(notes);
        failure = write(ddp.model(), path, notes).err().map(|error| in_words(path, &*error));
    }
    all_well(&group, "write the checkpoint", failure)
}

/// Gives all ranks what is in a file, which rank 0 reads, and the notes in it. All ranks have to call
/// it.
///
/// The file has to have the parameters and buffers of the model, and nothing else, with the same names,
/// shapes and dtypes. If it does not, the model is left as it is.
///
/// # Errors
/// [`Elsewhere`](crate::Error::Elsewhere), the same on every rank, when the file cannot be read or is of
/// another model; and why the group has ended, if it has.
pub fn load(
    ddp: &DistributedDataParallel,
    path: impl AsRef<Path>,
) -> Result<BTreeMap<String, String>> {
    let (group, path) = (ddp.reducer().group(), path.as_ref());
    let (mut notes, mut failure) = (BTreeMap::new(), None);
    if group.rank() == 0 {
        match read(ddp.model(), path) {
            Ok(found) => notes = found,
            Err(error) => failure = Some(in_words(path, &*error)),
        }
    }
    all_well(&group, "read the checkpoint", failure)?;
    let bytes = postcard::to_stdvec(&notes).expect("it has nothing that cannot be written");
    let all = gather(&group, if group.rank() == 0 { &bytes } else { &[] })?;
    ddp.broadcast(0)?;
    Ok(postcard::from_bytes(&all[0]).expect("rank 0 has written it in the same way"))
}

/// Writes a file beside the one that is meant, and gives it that name when it is complete and safe.
fn write<'a>(
    model: &Model,
    path: &Path,
    notes: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<(), Box<dyn Any>> {
    let part = beside(path)?;
    let notes = notes.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let variables = model.variables().map(|(name, variable)| (name, variable.as_tensor()));
    let complete = || -> Result<(), Box<dyn Any>> {
        // Whoever may read what this process writes may read this, too; the format's own writer lets
        // nobody else.
        let readers = File::create(&part)?.metadata()?.permissions();
        safetensors::serialize_to_file(variables, Some(notes.collect()), &part)?;
        fs::set_permissions(&part, readers)?;
        File::open(&part)?.sync_all()?;
        Ok(fs::rename(&part, path)?)
    };
    complete().inspect_err(|_| drop(fs::remove_file(&part)))?;
    // The name is safe when the folder is.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    Ok(File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?)
}

/// The name of a file that is not complete.
fn beside(path: &Path) -> Result<PathBuf, Box<dyn Any>> {
    let name = path.file_name().ok_or("it is no name of a file")?.to_string_lossy();
    Ok(path.with_file_name(format!(".{name}.{}.part", std::process::id())))
}

/// Gives this rank's model what is in a file.
fn read(model: &Model, path: &Path) -> Result<BTreeMap<String, String>, Box<dyn Any>> {
    let bytes = fs::read(path)?;
    let tensors = SafeTensors::deserialize(&bytes)?;
    let differences = compare(model, &tensors)?;
    if !differences.is_empty() {
        return Err(format!("it is of another model\n{}", in_lines(&differences)).into());
    }
    for (name, variable) in model.variables() {
        set(variable, tensors.tensor(name)?.data())?;
    }
    let (_, header) = SafeTensors::read_metadata(&bytes)?;
    Ok(header.metadata().iter().flatten().map(|(a, b)| (a.clone(), b.clone())).collect())
}

/// In what a file differs from a model.
fn compare(model: &Model, tensors: &SafeTensors<'_>) -> Result<Vec<String>, Box<dyn Any>> {
    let mut differences = Vec::new();
    let mut others: BTreeSet<String> = tensors.names().into_iter().map(str::to_owned).collect();
    for (name, variable) in model.variables() {
        if !others.remove(name) {
            differences.push(format!("{name:?} is missing"));
            continue;
        }
        let there = tensors.tensor(name)?;
        let same_dtype = DType::try_from(there.dtype()).is_ok_and(|it| it == variable.dtype());
        if !same_dtype || there.shape() != variable.dims() {
            let (dtype, dims) = (variable.dtype().as_str(), variable.dims());
            let (its, shape) = (there.dtype(), there.shape());
            differences.push(format!(
                "{name:?} is {its} {shape:?} there, and {dtype} {dims:?} in the model"
            ));
        }
    }
    let others = others.iter().map(|name| format!("{name:?} is not in the model"));
    differences.extend(others);
    Ok(differences)
}

fn in_words(path: &Path, error: &dyn Any) -> String {
    format!("{}: {error}", path.display())
}

/// Under which note it is said what has written a file.
const MAKER: &str = "consort-train";
