//! What goes wrong on one rank, and what the others hear of it.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod among;
mod apart;
mod child;
mod failure;
mod fork;
mod hearsay;
#[path = "../invitation/mod.rs"]
mod invitation;
mod kills;
mod meet;
mod meeting;
mod monitored;
mod newcomers;
mod reach;
mod shortage;
mod store;
mod survivors;
mod threads;
mod verdicts;
mod warnings;
