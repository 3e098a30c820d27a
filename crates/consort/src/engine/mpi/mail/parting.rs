//! What is done with a group's communicator when a rank has left the group.
//!
//! Every rank that leaves says goodbye to all others, and MPI wants all that was sent to be received before a
//! communicator is freed, or MPI ends. The others leave when they like. So a communicator is kept, by the
//! [process](crate::mpi::Parting), until every other member has said goodbye and nothing more can come of it.

use std::collections::{BTreeMap, VecDeque};
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
    /// Of whom something may come.
    awaited: BTreeMap<usize, Awaited>,
}

/// What may come of a rank.
#[derive(Debug, Default)]
struct Awaited {
    /// Since when all should have, as the rank has said goodbye.
    since: Option<Instant>,
    /// Packets that MPI is receiving, for nobody, in their order.
    coming: VecDeque<Pending>,
}

impl Mailbag {
    /// What is to be kept until nothing more comes.
    pub(super) fn part(&self) -> Parting {
        let there = self.others().filter(|&rank| !self.lookout.is_dead(rank));
        let awaited = there.map(|rank| (rank, Awaited::default())).collect();
        let (communicator, traffic) = (self.communicator.clone(), self.traffic.clone());
        let mut left = Left { communicator, traffic, awaited };
        Box::new(move || left.is_over())
    }
}

impl Left {
    /// Receives what has come of those who have left, too. Whether nothing more will.
    fn is_over(&mut self) -> bool {
        let mut awaited = mem::take(&mut self.awaited);
        awaited.retain(|&from, it| !self.has_all(from, it));
        self.awaited = awaited;
        self.awaited.is_empty()
    }

    /// Whether a rank has said goodbye, and all that it has sent is here, or has had its time to come. Before that its
    /// packets stay where they are: it has to hear that nobody wants them.
    fn has_all(&self, from: usize, it: &mut Awaited) -> bool {
        let Some(sent) = self.sent_by(from) else { return false };
        self.receive_all(from, &mut it.coming);
        let since = it.since.get_or_insert_with(Instant::now);
        let has_come = lock(&self.traffic)[from].taken >= sent || since.elapsed() >= LAST_BREATH;
        has_come && it.coming.is_empty()
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

    /// Receives what there is, and counts what is here: a packet says only then whether it is of this group.
    fn receive_all(&self, from: usize, coming: &mut VecDeque<Pending>) {
        let memory = &mut Memory::default();
        while let Ok(Some(packet)) = self.communicator.receive(from, Class::Message, NEXT, memory) {
            coming.push_back(packet);
        }
        while let Some(first) = coming.front_mut() {
            let done = first.is_done();
            if done == Ok(false) {
                return;
            }
            let packet = coming.pop_front().expect("there is one");
            if done.is_ok() {
                let (len, memory) = (packet.bytes(), packet.into_memory());
                let packet = &memory.receive.bytes()[..len];
                lock(&self.traffic)[from].count(packet, self.communicator.mark());
            }
        }
    }
}

/// For how long packets may be on their way whose sender has said goodbye, and a goodbye that MPI says is lost.
const LAST_BREATH: Duration = Duration::from_millis(200);
