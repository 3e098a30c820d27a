//! Whoever can be asked to train.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::args::PeerName;
use super::super::measurer::Refusal;
use super::super::process::Process;
use super::super::ranks::{Ranks, this_program};
use super::super::setting::Setting;
use super::shape::Shape;
use super::share::Share;

/// Somebody who trains: our own ranks, or a peer's. All of them stay alive and sleep between questions.
pub(crate) trait Trainer {
    /// Whose it is.
    fn name(&self) -> &str;

    /// Makes so many steps with communication, then as many without; gives every rank's times.
    fn train(&mut self, steps: usize) -> Result<Vec<Share>, Refusal>;
}

/// What all trainers have in common.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// How many ranks, and how ours reach each other.
    pub(crate) setting: Setting,
    /// How many threads each of them computes with.
    pub(crate) threads: usize,
    /// What they train.
    pub(crate) shape: Shape,
}

/// Our own ranks.
#[derive(Debug)]
pub(crate) struct Ours(Ranks);

impl Ours {
    /// Starts them and lets them make their models. To be called from a thread that lives as long.
    pub(crate) fn start(task: &Task) -> Result<Self, Refusal> {
        let command = || {
            let mut command = this_program("__bench_ddp_rank");
            command.env("RAYON_NUM_THREADS", task.threads.to_string()).env(MALLOC.0, MALLOC.1);
            command
        };
        let mut ranks = Ranks::start(command, &task.setting, None)?;
        ranks.ask::<Ready>(&task.shape.to_string(), PATIENCE)?;
        Ok(Self(ranks))
    }
}

impl Trainer for Ours {
    fn name(&self) -> &str {
        super::super::ours::NAME
    }

    fn train(&mut self, steps: usize) -> Result<Vec<Share>, Refusal> {
        self.0.ask(&steps.to_string(), PATIENCE)
    }
}

/// A program that trains with something else.
#[derive(Debug)]
pub(crate) struct Peer {
    name: String,
    process: Process,
}

impl Peer {
    /// Starts its ranks and waits until they are ready.
    pub(crate) fn start(folder: &Path, name: &PeerName, task: &Task) -> Result<Self, Refusal> {
        let mut command = Command::new(folder.join(name.as_str()));
        let Task { setting, threads, shape } = task;
        command.arg(setting.ranks.to_string()).arg(threads.to_string());
        command.args(shape.to_string().split_whitespace()).env(MALLOC.0, MALLOC.1);
        let name = name.as_str().to_owned();
        let mut process = Process::start(&name, command)?;
        let Ready { ready } = process.hear(PATIENCE)?;
        tracing::info!(version = ready, "{name} is ready");
        Ok(Self { name, process })
    }
}

impl Trainer for Peer {
    fn name(&self) -> &str {
        &self.name
    }

    fn train(&mut self, steps: usize) -> Result<Vec<Share>, Refusal> {
        self.process.tell(&steps.to_string())?;
        let Answer { ranks } = self.process.hear(PATIENCE)?;
        Ok(ranks)
    }
}

/// What a trainer says when its model is there: what it is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// In words.
    pub(crate) ready: String,
}

/// What a peer answers: the times of each of its ranks.
#[derive(Debug, Deserialize)]
struct Answer {
    ranks: Vec<Share>,
}

/// How long an answer may take, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(300);

/// Lets a process keep the memory that it has had. Otherwise large tensors come from the system and go back
/// to it, or not, as the order of allocations has it: two models of the same shape in one process differ
/// by tens of thousands of page faults in each step, and those would count as communication, or against it.
const MALLOC: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776:glibc.malloc.top_pad=67108864",
);
