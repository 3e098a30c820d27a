//! Which job is meant.

use std::path::{Path, PathBuf};

use super::text;
use crate::records::{self, Listed};

/// The folder or file that a name stands for.
///
/// # Errors
/// Says what there is, if it stands for nothing or for several.
pub(crate) fn find(name: &str) -> Result<PathBuf, String> {
    let jobs = records::list(&records::base());
    match choose(name, &jobs)? {
        Some(job) => Ok(job.path.clone()),
        None if Path::new(name).exists() => Ok(name.into()),
        None => {
            let what = format!("there is no job, folder or file {name}");
            Err(format!("{what}\n{}", text::list(&jobs).trim_end()))
        }
    }
}

/// The one job that is called so, or begins so.
fn choose<'a>(name: &str, jobs: &'a [Listed]) -> Result<Option<&'a Listed>, String> {
    if let Some(job) = jobs.iter().find(|job| job.job == name) {
        return Ok(Some(job));
    }
    let begin: Vec<&Listed> = jobs.iter().filter(|job| job.job.starts_with(name)).collect();
    match begin[..] {
        [] => Ok(None),
        [job] => Ok(Some(job)),
        _ => {
            let names: Vec<&str> = begin.iter().map(|job| &job.job[..]).collect();
            Err(format!("several jobs begin with {name}: {}", names.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs() -> Vec<Listed> {
        let job = |name: &str| Listed {
            job: name.to_owned(),
            path: name.into(),
            is_running: true,
            since: std::time::SystemTime::now(),
        };
        ["5f2c", "5f", "77aa"].map(job).into()
    }

    #[test]
    fn a_job_is_known_by_its_name_or_its_beginning() {
        let jobs = jobs();
        let found = |name| choose(name, &jobs).map(|job| job.map(|job| &job.job[..]));
        assert_eq!(found("5f"), Ok(Some("5f")));
        assert_eq!(found("7"), Ok(Some("77aa")));
        assert_eq!(found("9"), Ok(None));
        assert_eq!(found("5").unwrap_err(), "several jobs begin with 5: 5f2c, 5f");
    }
}
