//! Our own ranks, asked as peers are.
//!
//! On several hosts they are asked twice: as they find it best, and with TCP everywhere.

use super::hosts::Hosts;
use super::measurer::{Measurer, Refusal};
use super::peer::patience;
use super::point::Point;
use super::ranks::{Ranks, this_program};
use super::record::Record;
use super::samples::{self, Samples};
use super::setting::Setting;

/// Our ranks, met and waiting for points.
#[derive(Debug)]
pub(crate) struct Ours {
    name: &'static str,
    ranks: Ranks,
    setting: Setting,
}

impl Ours {
    /// Starts the ranks and waits until they have met. To be called from a thread that lives as
    /// long as they do.
    pub(crate) fn start(
        name: &'static str,
        setting: &Setting,
        hosts: Option<&Hosts>,
    ) -> Result<Self, Refusal> {
        let ranks = Ranks::start(|| this_program("__bench_rank"), setting, hosts)?;
        Ok(Self { name, ranks, setting: setting.clone() })
    }
}

impl Measurer for Ours {
    fn name(&self) -> &str {
        self.name
    }

    fn measure(&mut self, point: &Point) -> Result<Record, Refusal> {
        let samples: Vec<Samples> = self.ranks.ask(&point.to_string(), patience(point))?;
        let figures = samples::merge(&samples).map_err(Refusal::Gone)?;
        let Setting { encrypt: encrypted, symmetric, hosts, .. } = self.setting;
        let hosts = (hosts > 1).then_some(hosts);
        let transport = self.setting.transport_in_use();
        let record = Record::new(self.name, transport, self.ranks.count(), point, figures);
        Ok(Record { encrypted, symmetric, hosts, ..record.asked(point, &self.setting) })
    }
}

/// Our ranks, as they find it best.
pub(crate) const NAME: &str = "consort";

/// Our ranks with TCP everywhere, also on one host.
pub(crate) const FLAT: &str = "flat";
