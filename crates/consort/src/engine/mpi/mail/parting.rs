//! What is done with a group's communicator when a rank has left the group.
//!
//! Every rank that leaves says goodbye to all others, and MPI wants all that was sent to be received before a
//! communicator is freed, or MPI ends. The others leave when they like. So a communicator is kept, by the
//! [process](crate::mpi::Parting), until every other member has said goodbye and nothing more can come of it.

use std::collections::BTreeMap;
use std::mem;
use std::time::{Duration, Instant};

use super::goodbye::Goodbye;
use super::{Mailbag, NEXT, SharedTraffic, lock};
use crate::mpi::{Class, Communicator, Memory, Parting, Pending};

/// A communicator that is used no more.
#[derive(Debug)]
struct Left {
    communicator: Communicator,
    traffic: SharedTraffic,
    /// Of whom something may come; and since when it should have, as they have said goodbye.
    awaited: BTreeMap<usize, Option<Instant>>,
    /// What MPI is receiving, for nobody.
    coming: Vec<Pending>,
}

impl Mailbag {
    /// What is to be kept until nothing more comes.
    pub(super) fn part(&self) -> Parting {
        let there = self.others().filter(|&rank| !self.lookout.is_dead(rank));
        let awaited = there.map(|rank| (rank, None)).collect();
        let (communicator, traffic) = (self.communicator.clone(), self.traffic.clone());
        let mut left = Left { communicator, traffic, awaited, coming: Vec::new() };
        Box::new(move || left.is_over())
    }
}

impl Left {
    /// Receives what has come of those who have left, too. Whether nothing more will.
    fn is_over(&mut self) -> bool {
        let mut awaited = mem::take(&mut self.awaited);
        awaited.retain(|&from, since| !self.has_all(from, since));
        self.awaited = awaited;
        self.coming.retain_mut(|packet| packet.is_done() == Ok(false));
        self.awaited.is_empty() && self.coming.is_empty()
    }

    /// Whether a rank has said goodbye, and all that it has sent is here, or has had its time to come. Before that its
    /// packets stay where they are: it has to hear that nobody wants them.
    fn has_all(&mut self, from: usize, since: &mut Option<Instant>) -> bool {
        let Some(sent) = self.sent_by(from) else { return false };
        self.receive_all(from);
        lock(&self.traffic)[from].taken >= sent
            || since.get_or_insert_with(Instant::now).elapsed() >= LAST_BREATH
    }

    /// How many packets a rank has sent that has said goodbye.
    fn sent_by(&self, from: usize) -> Option<u64> {
        let it = &mut lock(&self.traffic)[from];
        it.goodbye.look(&self.communicator, from);
        match it.goodbye {
            Goodbye::Said { sent, .. } => Some(sent),
            // Nobody knows any more.
            Goodbye::Lost(_) => Some(u64::MAX),
            Goodbye::Unsaid | Goodbye::Coming(_) => None,
        }
    }

    fn receive_all(&mut self, from: usize) {
        let memory = &mut Memory::default();
        while let Ok(Some(packet)) = self.communicator.receive(from, Class::Message, NEXT, memory) {
            lock(&self.traffic)[from].taken += 1;
            self.coming.push(packet);
        }
    }
}

/// For how long packets may be on their way whose sender has said goodbye, and a goodbye that MPI says is lost.
const LAST_BREATH: Duration = Duration::from_millis(200);
