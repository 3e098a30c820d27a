//! How a group's ranks reach each other: by shared memory, over the wire, or both; or by MPI.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use consort_plan::Layout;
use consort_sys::host::HostId;
use consort_sys::parting::Parting;
use consort_sys::wait::Patience;

use super::devices::Devices;
use super::subgroup::Subgroups;
use super::{Carrier, Group, Job, Member, Rank, Shared};
use crate::backend::{Backend, Host};
use crate::engine::{
    Audited, ByMpi, Footing, Lookout, Mixed, Post, Rest, Road, Roster, Route, Wired, found,
};
use crate::error::{Error, Result};
use crate::exec::Choices;
use crate::mpi::{Making, Numbering};
use crate::neighbourhood::{Neighbourhood, Places};
use crate::options::Transport;
use crate::symm::Commons;

impl Group {
    /// The same, just formed, whose calls are written down.
    pub(super) fn recorded(self) -> Self {
        let Shared { lookout, job, world_ranks, .. } = &*self.shared;
        if let Some(lookout) = lookout {
            lookout.record(&job.recorder, world_ranks);
        }
        self
    }
}

impl Job {
    /// A group of these members, who have these ranks in the world. Those on this host have set these
    /// places aside. If that is not to be by MPI even where there is one, `carrier` says so. MPI may take so long.
    ///
    /// # Errors
    /// When a place is not in its rank's memory, or there are too many ranks on this host; when MPI fails.
    pub(super) fn form(
        self: &Arc<Self>,
        name: String,
        rank: Rank,
        members: Vec<Member>,
        world_ranks: Vec<u32>,
        places: Option<Places>,
        (carrier, timeout): (Carrier, Duration),
    ) -> Result<Shared> {
        let host = &members[rank.index()].host;
        let is_here = |(member, _): &(&Member, &u32)| member.host == *host;
        let here: Vec<u32> =
            members.iter().zip(&world_ranks).filter(is_here).map(|(_, &rank)| rank).collect();
        let is_shared = here.len() == members.len() && self.options.transport != Transport::Tcp;
        let shares_board = is_shared || members.len() == 1;
        let (backend, lookout, commons) = match (shares_board, places, carrier) {
            (shares_board, places, Carrier::Mpi) => {
                let places = places.filter(|_| shares_board);
                let (backend, lookout) =
                    self.by_mpi(&name, (rank, &world_ranks), places, timeout)?;
                (backend, lookout, None)
            }
            (true, Some(places), Carrier::Host) => {
                let lane = self.neighbourhood()?.lane(&name, &here, places)?;
                let commons = Arc::new(Commons::new(&lane));
                let post = lane.post().clone();
                let lookout = post.lookout().clone();
                let backend = Host::new(
                    "shm",
                    self.audited(lane.into()),
                    post,
                    self.patience(),
                    self.clone(),
                );
                (Arc::new(backend) as Arc<dyn Backend>, lookout, Some(commons))
            }
            (_, places, Carrier::Host) => {
                let here = (&here[..], places);
                let (backend, lookout) = self.between_hosts(&name, &members, &world_ranks, here)?;
                (backend, lookout, None)
            }
        };
        let hosts: Vec<&HostId> = members.iter().map(|member| &member.host).collect();
        let hosts = Layout::new(&hosts).count();
        self.recorder.tell_of(&name, rank.get(), members.len(), hosts, backend.name());
        let (members, world_ranks): (Arc<[Member]>, Arc<[u32]>) =
            (members.into(), world_ranks.into());
        lookout.introduce(Roster {
            me: rank.index(),
            members: members.clone(),
            world_ranks: world_ranks.clone(),
            folder: self.recorder.folder().map(Into::into),
            partings: self.partings(&world_ranks),
            warn_after: self.warn_after,
        });
        let job = self.clone();
        let succession = Mutex::default();
        let monitored = Mutex::default();
        Ok(Shared {
            name,
            rank,
            members,
            world_ranks,
            backend,
            devices: Devices::default(),
            carrier,
            lookout: Some(lookout),
            monitored,
            succession,
            subgroups: Subgroups::default(),
            values: Mutex::default(),
            commons,
            job,
        })
    }

    /// For a group whose members do not all share memory; these do, and have set places aside.
    fn between_hosts(
        self: &Arc<Self>,
        name: &str,
        members: &[Member],
        world_ranks: &[u32],
        (here, places): (&[u32], Option<Places>),
    ) -> Result<(Arc<dyn Backend>, Lookout)> {
        let route = self.route(name, world_ranks)?;
        let neighbourhood = self.neighbourhood()?;
        let patience = neighbourhood.patience();
        let hosts: Vec<&HostId> = members.iter().map(|member| &member.host).collect();
        let layout = Layout::new(&hosts);
        let choices = Choices::new(self.options.algorithm.as_deref(), layout.clone())?
            .sharing(route.wire().cores());
        let may_share = self.options.transport != Transport::Tcp && layout.is_even();
        let (name, road, post) = match places.filter(|_| may_share && here.len() > 1) {
            Some(places) => {
                let here = neighbourhood.among(here);
                let mixed = Mixed::new(name, route, layout, here, places, choices, patience)?;
                let post = mixed.post().clone();
                ("mixed", Road::Other(Box::new(mixed)), post)
            }
            None => {
                let lookout = Lookout::new(name, route.company());
                let rest = Rest::Other(route.wire().clone());
                let post = Post::over(lookout.clone(), route.mail(), rest, patience.asking());
                let wired = Wired::new(route, lookout, choices, patience);
                ("tcp", Road::Other(Box::new(wired)), Arc::new(post))
            }
        };
        let road = self.audited(road);
        let patience = self.patience().asking();
        let lookout = post.lookout().clone();
        Ok((Arc::new(Host::new(name, road, post, patience, self.clone())), lookout))
    }

    /// For a group whose data MPI carries. Its members know of each other as always: on one host, where they have set
    /// places aside, by a board.
    ///
    /// All of them are about to do this, for they have met.
    fn by_mpi(
        self: &Arc<Self>,
        name: &str,
        (rank, world_ranks): (Rank, &[u32]),
        places: Option<Places>,
        timeout: Duration,
    ) -> Result<(Arc<dyn Backend>, Lookout)> {
        let no_mpi = || Error::Mpi("this process has not begun it".to_owned());
        let mpi = self.mpi.as_ref().ok_or_else(no_mpi)?.mpi();
        let (footing, lookout) = match places {
            Some(places) => {
                let lane = self.neighbourhood()?.lane(name, world_ranks, places)?;
                let lookout = lane.lookout().clone();
                (Footing::Board(Box::new(lane)), lookout)
            }
            None => {
                let route = self.route(name, world_ranks)?;
                let lookout = Lookout::new(name, route.company());
                (Footing::over(route), lookout)
            }
        };
        let ranks: Vec<i32> = world_ranks.iter().map(|&rank| rank as i32).collect();
        let called = |what: &str| format!("{} {} {name} {what}", self.name, self.epoch);
        let numbering = Numbering {
            store: self.registry.clone(),
            group: called("numbers"),
            is_first: rank == 0,
            timeout,
        };
        let names = [called("data"), called("messages")];
        let making = Making::begin(mpi, name, ranks, names, numbering);
        let making = making.map_err(|error| Error::Thread(error.into()))?;
        let (communicators, footing) = found(making, footing, &lookout, self, timeout)?;
        let patience = self.neighbourhood()?.patience();
        let (way, post) = ByMpi::new(communicators, footing, lookout.clone(), patience);
        let road = self.audited(Road::Other(Box::new(way)));
        let backend = Host::new("mpi", road, post, self.patience().working(), self.clone());
        Ok((Arc::new(backend), lookout))
    }

    /// The way over the wire to these ranks of the world.
    fn route(&self, name: &str, world_ranks: &[u32]) -> Result<Route> {
        let several = || Error::SeveralHosts { group: name.to_owned() };
        let wire = self.wire.as_deref().ok_or_else(several)?;
        let neighbourhood = self.neighbourhood()?;
        let neighbours =
            world_ranks.iter().map(|&rank| neighbourhood.neighbour(rank).cloned()).collect();
        Ok(Route::new(wire, name, world_ranks, neighbours, &self.registry))
    }

    /// What those of these ranks of the world leave who are on this host.
    fn partings(&self, world_ranks: &[u32]) -> Vec<Option<Parting>> {
        let parting =
            |rank| Some(self.neighbourhood.as_deref()?.neighbour(rank)?.parting().clone());
        world_ranks.iter().map(|&rank| parting(rank)).collect()
    }

    /// A road whose ranks compare their results, if they are to.
    fn audited(&self, road: Road) -> Road {
        match self.options.verify_every {
            Some(every) => Road::Audited(Box::new(Audited::new(road, every))),
            None => road,
        }
    }

    /// How the progress thread waits.
    fn patience(&self) -> Patience {
        let neighbourhood = self.neighbourhood.as_deref();
        neighbourhood.map_or(Patience::for_ranks(1, 1), Neighbourhood::patience_of_progress)
    }
}
