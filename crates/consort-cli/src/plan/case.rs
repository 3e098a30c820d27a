//! Ranks, hosts and algorithms, as asked for on the command line.

use consort_plan::algo::{self, Algorithm};
use consort_plan::{Collective, Layout};

use super::Failure;

/// Reads the name of an algorithm.
pub(super) fn parse_algorithm(name: &str) -> Result<&'static str, String> {
    let known = algo::NAMES.into_iter().find(|known| *known == name);
    known.ok_or_else(|| format!("choose {}", algo::NAMES.join(", ")))
}

/// The name of an algorithm, or none where one is to be chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish(pub(super) Option<&'static str>);

/// Reads what `CONSORT_ALGORITHM` may say.
pub(super) fn parse_wish(name: &str) -> Result<Wish, String> {
    match name {
        "" | "auto" => Ok(Wish(None)),
        _ => parse_algorithm(name).map(|name| Wish(Some(name))),
    }
}

/// So many ranks on so many hosts, or each on a host of its own.
pub(super) fn layout(ranks: u32, hosts: Option<u32>) -> Result<Layout, Failure> {
    let hosts = hosts.unwrap_or(ranks);
    if hosts == 0 || hosts > ranks {
        return Err(Failure::usage(format!(
            "{ranks} ranks cannot be on {hosts} hosts: every host has a rank; give --hosts from 1 to \
             {ranks}"
        )));
    }
    Ok(Layout::even(ranks, hosts))
}

/// The operation with this root.
pub(super) fn with_root(op: Collective, root: u32, ranks: u32) -> Result<Collective, Failure> {
    if root >= ranks {
        return Err(Failure::usage(format!(
            "there is no rank {root} among {ranks}: give --root from 0 to {}",
            ranks - 1
        )));
    }
    Ok(op.with_root(root))
}

/// An algorithm that must have programs for an operation.
pub(super) fn algorithm(
    name: &str,
    op: Collective,
    layout: &Layout,
) -> Result<Box<dyn Algorithm>, Failure> {
    let algorithm =
        algo::named(name, layout).map_err(|unknown| Failure::usage(unknown.to_string()))?;
    if algorithm.supports(op, layout.world()) {
        return Ok(algorithm);
    }
    let (world, hosts) = (layout.world(), layout.count());
    Err(Failure::usage(format!(
        "{name} does not support {} between {world} ranks on {hosts} hosts; these do: {}",
        op.name(),
        supporting(op, layout).join(", ")
    )))
}

/// The names of all algorithms that have programs for an operation.
pub(super) fn supporting(op: Collective, layout: &Layout) -> Vec<&'static str> {
    let supports = |name: &&str| {
        algo::named(name, layout).is_ok_and(|algorithm| algorithm.supports(op, layout.world()))
    };
    algo::NAMES.into_iter().filter(supports).collect()
}
