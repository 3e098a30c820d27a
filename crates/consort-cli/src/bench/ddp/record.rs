//! What is told of one trainer and one model.

use serde::Serialize;

use super::super::record::to_four_places;
use super::course::Figures;
use super::trainer::Task;

/// A line of `--json`. Times are milliseconds; `consort bench ddp --help` has the fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Record {
    /// Always `ddp`.
    op: &'static str,
    /// Whose it is.
    #[serde(rename = "impl")]
    pub(crate) name: String,
    /// How ranks reached each other, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) transport: Option<&'static str>,
    pub(crate) model: String,
    pub(crate) tensors: usize,
    pub(crate) parameters: usize,
    pub(crate) batch: usize,
    pub(crate) ranks: usize,
    pub(crate) threads: usize,
    steps: usize,
    pub(crate) step_ms: f64,
    pub(crate) alone_ms: f64,
    pub(crate) exposed_ms: f64,
    step_min_ms: f64,
    alone_min_ms: f64,
    pub(crate) step_cpu_ms: f64,
    pub(crate) alone_cpu_ms: f64,
    pub(crate) first_ms: f64,
    pub(crate) tenth_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    communication_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hop_us: Option<f64>,
}

impl Record {
    /// Of these figures.
    pub(crate) fn new(
        name: &str,
        transport: Option<&'static str>,
        model: &str,
        task: &Task,
        figures: &Figures,
    ) -> Self {
        let Figures { together, alone, way, .. } = *figures;
        Self {
            op: "ddp",
            name: name.to_owned(),
            transport,
            model: model.to_owned(),
            tensors: task.shape.tensors(),
            parameters: task.shape.parameters(),
            batch: task.shape.batch,
            ranks: task.setting.ranks,
            threads: task.threads,
            steps: figures.steps,
            step_ms: to_four_places(together.median),
            alone_ms: to_four_places(alone.median),
            exposed_ms: to_four_places(together.median - alone.median),
            step_min_ms: to_four_places(together.least),
            alone_min_ms: to_four_places(alone.least),
            step_cpu_ms: to_four_places(together.computed),
            alone_cpu_ms: to_four_places(alone.computed),
            first_ms: to_four_places(figures.first),
            tenth_ms: to_four_places(figures.tenth),
            communication_ms: way.map(|(communication, _)| to_four_places(communication)),
            hidden_ms: way.map(|(_, hidden)| to_four_places(hidden)),
            hop_us: figures.hop_us.map(to_four_places),
        }
    }

    /// Which part of the time that gradients were on their way backward computed as well.
    pub(crate) fn hidden(&self) -> Option<f64> {
        let (communication, hidden) = self.communication_ms.zip(self.hidden_ms)?;
        (communication > 0.0).then(|| hidden / communication)
    }
}
