//! Alternates the two, and prints medians and ratios.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use crate::job::{self, Run};

/// Runs consort's once and prints it as one line of JSON.
pub(crate) fn one(clients: usize, seconds: f64) -> Result<(), Box<dyn Error>> {
    println!("{}", serde_json::to_string(&job::serve(clients, seconds)?)?);
    Ok(())
}

/// Runs both for each number of clients, one after the other, `rounds` times.
pub(crate) fn compare(
    python: &Path,
    script: &Path,
    clients: &[usize],
    rounds: usize,
    seconds: f64,
) -> Result<(), Box<dyn Error>> {
    println!("medians of {rounds} alternating runs; ratio above 1: consort is ahead");
    println!("{:>8} {:>28} {:>34}", "", "set+get pairs per second", "all clients meet, ms");
    println!(
        "{:>8} {:>10} {:>10} {:>6} {:>13} {:>12} {:>7}",
        "clients", "consort", "TCPStore", "ratio", "consort", "TCPStore", "ratio"
    );
    for &clients in clients {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            ours.push(job::serve(clients, seconds)?);
            theirs.push(peer(python, script, clients, seconds)?);
        }
        print_row(clients, &ours, &theirs);
    }
    Ok(())
}

fn peer(python: &Path, script: &Path, clients: usize, seconds: f64) -> Result<Run, Box<dyn Error>> {
    let output = Command::new(python)
        .arg(script)
        .args([clients.to_string(), seconds.to_string()])
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn print_row(clients: usize, ours: &[Run], theirs: &[Run]) {
    let rate = |runs: &[Run]| median(runs.iter().map(|run| run.pairs_per_second));
    let meet = |runs: &[Run]| median(runs.iter().map(|run| run.meet_ms));
    println!(
        "{clients:>8} {:>10.0} {:>10.0} {:>6.2} {:>13.2} {:>12.2} {:>7.2}",
        rate(ours),
        rate(theirs),
        rate(ours) / rate(theirs),
        meet(ours),
        meet(theirs),
        meet(theirs) / meet(ours),
    );
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
