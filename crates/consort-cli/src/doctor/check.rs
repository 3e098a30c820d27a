//! Judging the facts: one small function for each question.

mod clock;
mod cores;
mod engines;
mod files;
mod limits;
mod memory;
mod network;
mod python;
mod reach;
mod system;
mod variables;

use super::facts::Facts;
use super::finding::Finding;

/// Every check, in the order of the report.
pub(crate) fn all(facts: &Facts) -> Vec<Finding> {
    let ranks = facts.topology.effective_cores() as u64;
    let mut findings = vec![system::versions(&facts.system), system::abilities(&facts.system)];
    findings.push(cores::ranks(&facts.topology));
    findings.push(cores::layout(&facts.topology));
    findings.push(memory::usable(&facts.memory));
    findings.push(memory::shared(&facts.memory));
    findings.push(memory::huge_pages(&facts.memory));
    findings.push(reach::sharing(facts.sharing));
    findings.push(limits::open_files(&facts.limits, ranks));
    findings.push(limits::processes(&facts.limits, ranks));
    findings.push(limits::locked_memory(&facts.limits, facts.system.infiniband));
    findings.push(network::interfaces(&facts.network));
    findings.push(network::choice(&facts.network));
    findings.push(network::loopback(&facts.network));
    findings.push(network::ports(&facts.network));
    findings.push(clock::monotonic(&facts.clock));
    findings.push(clock::agreement(&facts.clock, facts.several_hosts));
    findings.push(files::temporary(&facts.files));
    findings.extend(files::secret(&facts.files));
    findings.push(variables::settings(&facts.variables, &variables::faulty(facts)));
    findings.extend(variables::leftovers(&facts.variables));
    findings.push(engines::mpi(&facts.engines, &facts.variables));
    findings.push(engines::nccl(&facts.engines, &facts.variables));
    findings.push(python::found(&facts.python));
    findings
}
