//! How a group's ranks reach each other: by shared memory, over the wire, or both.

use std::sync::Arc;

use consort_plan::Layout;
use consort_store::Store;
use consort_sys::host::HostId;
use consort_sys::wait::Patience;

use super::{Job, Member, Rank, Shared};
use crate::backend::{Backend, Host};
use crate::engine::{Audited, Lookout, Post, Rest, Road, Route, Wired};
use crate::error::{Error, Result};
use crate::exec::Choices;
use crate::neighbourhood::{Neighbourhood, Places};
use crate::options::Transport;
use crate::symm::Commons;
use crate::wire::Wire;

/// The wire, and the store in which those settle things who meet on it.
#[derive(Debug)]
pub(crate) struct Web {
    pub(crate) wire: Arc<Wire>,
    /// Does not wait long for the store.
    pub(crate) store: Arc<dyn Store>,
}

impl Job {
    /// A group of these members, who have these ranks in the world. Those on this host have set these
    /// places aside.
    ///
    /// # Errors
    /// When a place is not in its rank's memory, or there are too many ranks on this host.
    pub(super) fn form(
        self: &Arc<Self>,
        name: String,
        rank: Rank,
        members: Vec<Member>,
        world_ranks: Vec<u32>,
        places: Option<Places>,
    ) -> Result<Shared> {
        let host = &members[rank.index()].host;
        let is_here = |(member, _): &(&Member, &u32)| member.host == *host;
        let here: Vec<u32> =
            members.iter().zip(&world_ranks).filter(is_here).map(|(_, &rank)| rank).collect();
        let is_shared = here.len() == members.len() && self.options.transport != Transport::Tcp;
        let (backend, commons) = match (is_shared || members.len() == 1, places) {
            (true, Some(places)) => {
                let lane = self.neighbourhood()?.lane(&name, &here, places)?;
                let commons = Arc::new(Commons::new(&lane));
                let post = lane.post().clone();
                let backend = Host::new(
                    "shm",
                    self.audited(lane.into()),
                    post,
                    self.patience(),
                    self.clone(),
                );
                (Arc::new(backend) as Arc<dyn Backend>, Some(commons))
            }
            _ => {
                let backend = self.wired(&name, &members, &world_ranks)?;
                (backend, None)
            }
        };
        let job = self.clone();
        Ok(Shared { name, rank, members, world_ranks, backend, commons, job })
    }

    fn wired(
        self: &Arc<Self>,
        name: &str,
        members: &[Member],
        world_ranks: &[u32],
    ) -> Result<Arc<dyn Backend>> {
        let several = || Error::SeveralHosts { group: name.to_owned() };
        let web = self.wire.as_deref().ok_or_else(several)?;
        let neighbourhood = self.neighbourhood()?;
        let lives = world_ranks.iter().map(|&rank| neighbourhood.life(rank)).collect();
        let route = Route::new(&web.wire, name, world_ranks, lives, &web.store);
        let lookout = Lookout::new(name, route.company());
        let hosts: Vec<&HostId> = members.iter().map(|member| &member.host).collect();
        let layout = Layout::new(&hosts);
        let choices = Choices::new(self.options.algorithm.as_deref(), layout)?;
        let rest = Rest::Other(web.wire.clone());
        let post = Post::over(lookout.clone(), route.mail(), rest, neighbourhood.patience());
        let wired = Wired::new(route, lookout, choices, neighbourhood.patience());
        let road = self.audited(Road::Other(Box::new(wired)));
        Ok(Arc::new(Host::new("tcp", road, Arc::new(post), self.patience(), self.clone())))
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
