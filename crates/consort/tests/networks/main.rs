//! Groups between hosts, on networks that have what real ones have: two families of addresses, small
//! packets, interfaces that lead nowhere, distance, loss, firewalls, and people who listen or meddle.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod exercise;
mod meddler;
mod meet;

mod changed;
mod door;
mod secrecy;
mod shapes;
mod wrong;
