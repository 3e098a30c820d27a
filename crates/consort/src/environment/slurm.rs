//! Where ranks meet that Slurm has started, when nobody says.

use std::ops::Range;

use consort_store::Place;

use super::Variables;

impl Variables {
    /// Slurm gives each job a number and a list of nodes; the same port follows on every node.
    pub(super) fn slurms_place(&self) -> Option<Place> {
        let [step, whole, job] = VARIABLES;
        let nodes = self.text(step).or_else(|| self.text(whole))?;
        let job: u64 = self.text(job)?.parse().ok()?;
        let host = first_host(&nodes)?;
        Some(Place::Tcp { host, port: PORTS.start + (job % PORTS.len() as u64) as u16 })
    }
}

/// The first host of a list such as `node[03-07,12],login1`.
fn first_host(list: &str) -> Option<String> {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let (name, rest) = list.split_at(end);
    let host = match rest.strip_prefix('[') {
        Some(ranges) => {
            let number = ranges.split(['-', ',', ']']).next()?;
            let (_, tail) = ranges.split_once(']')?;
            let tail = tail.split(',').next()?;
            format!("{name}{number}{tail}")
        }
        None => name.to_owned(),
    };
    (!host.is_empty()).then_some(host)
}

/// The nodes of the step and of the whole job, and the job's number.
pub(super) const VARIABLES: [&str; 3] =
    ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_JOB_ID"];
/// Below the range that systems give to outgoing connections.
const PORTS: Range<u16> = 20_000..30_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{read, tcp};
    use super::*;

    #[test]
    fn slurm_alone_gives_a_place_that_is_the_same_on_every_node() {
        let job = "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_JOB_ID=123456";
        for (list, host) in [
            ("node[03-07,12]", "node03"),
            ("node7,node9", "node7"),
            ("a[1,3]-ib,b2", "a1-ib"),
            ("login", "login"),
        ] {
            let said = read(&format!("{job} SLURM_JOB_NODELIST={list}"));
            assert_eq!(said.place, tcp(host, 23456), "{list}");
        }
        let said = read(&format!("{job} SLURM_JOB_NODELIST=a1 SLURM_STEP_NODELIST=a2"));
        assert_eq!(said.place, tcp("a2", 23456));
    }

    proptest! {
        #[test]
        fn any_list_is_read_without_harm(list in ".{0,30}") {
            let _ = first_host(&list);
        }
    }
}
