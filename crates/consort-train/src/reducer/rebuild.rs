//! Buckets that are made anew when it is known in which order gradients come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use consort::device::Device;
use consort::{Call, Dtype, Group, ReduceOp};

use super::inner::Inner;
use super::state::State;
use crate::agreement::all_well;
use crate::assign::{Caps, assign};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::memory::Memory;
use crate::parameter::Parameter;
use crate::tune::{Advice, Cost, Seen, advise};

impl Inner {
    /// Before a pass: makes buckets anew if it is time to. All ranks come to it at the same time, as they
    /// have averaged the same number of passes.
    pub(crate) fn renew(&self, state: &mut State, group: &Group) -> Result<()> {
        let Some(order) = state.observed.take() else { return Ok(()) };
        // In the first pass of a static graph gradients are counted, and come to their places at its end.
        let is_known = state.averaged == KNOWN + u64::from(self.settings.is_static);
        let is_tried = state.averaged == TRIED && state.caps.are_guessed();
        if !is_known && !is_tried {
            return Ok(());
        }
        let order = as_rank_0_saw(group, order)?;
        let mut caps = state.caps.clone();
        if is_tried {
            let found = self.tune(state, group, &order)?;
            caps = found.caps.clone().measured();
            state.advice = Some(found);
        }
        self.lay_out(state, group, order, caps)
    }

    /// The best sizes, as rank 0 finds, on all ranks.
    fn tune(&self, state: &State, group: &Group, order: &[usize]) -> Result<Advice> {
        let bytes = self.parameters.iter().map(Parameter::bytes).sum();
        let cost = measure(group, bytes, self.settings.rules.device.as_ref())?;
        let mut advice = Advice::none(&state.caps);
        if let (Some(last), Some(cost)) = (state.tally.last(), &cost) {
            let at = |&index: &usize| (index, last.ready[index].unwrap_or(last.backward));
            let ready: Vec<(usize, Duration)> = order.iter().map(at).collect();
            let seen = Seen { parameters: &self.parameters, ready: &ready, end: last.backward };
            let rules = &self.settings.rules;
            advice = advise(seen, cost, &state.caps, |parameter| rules.is_alone(parameter));
        }
        let mut words = advice.to_words();
        group.broadcast(&mut words, 0)?;
        Advice::of_words(words)
    }

    /// Puts parameters into buckets of these sizes in this order, with what was added up.
    fn lay_out(
        &self,
        state: &mut State,
        group: &Group,
        order: Vec<usize>,
        caps: Caps,
    ) -> Result<()> {
        let rules = &self.settings.rules;
        let buckets = assign(&self.parameters, order, &caps, |it| rules.is_alone(it));
        if buckets != state.layout.members() {
            let made = (group, state.generation + 1);
            if rules.device.is_some() {
                // A device has no room for gradients twice.
                state.layout.release();
            }
            let new = Layout::new(&self.parameters, buckets, rules, made)?;
            new.take_over(&state.layout)?;
            state.generation += 1;
            state.layout = Arc::new(new);
        }
        (state.caps, state.is_rebuilt) = (caps, true);
        Ok(())
    }
}

/// The order that rank 0 has seen, which is as good as any, on all ranks.
fn as_rank_0_saw(group: &Group, order: Vec<usize>) -> Result<Vec<usize>> {
    let mut order: Vec<u32> = order.into_iter().map(|index| index as u32).collect();
    group.broadcast(&mut order, 0)?;
    Ok(order.into_iter().map(|index| index as usize).collect())
}

/// How long the group takes for how many bytes, up to this many; `None` if one of the ranks' devices has no room to try
/// that. Every rank has to call it.
fn measure(group: &Group, most: usize, device: Option<&Device>) -> Result<Option<Cost>> {
    let mut points = Vec::new();
    for bytes in SIZES.into_iter().filter(|&bytes| bytes <= most.max(SIZES[0])) {
        let Some(mut memory) = room(bytes, group, device)? else { return Ok(None) };
        for turn in 0..=TURNS {
            let (dtype, op) = (Dtype::F32, ReduceOp::Avg);
            let output = memory.target();
            let began = Instant::now();
            group.call(&Call::AllReduce { dtype, op, input: output.into(), output })?;
            if turn > 0 {
                points.push((bytes, began.elapsed()));
            }
        }
    }
    Ok(Cost::new(points))
}

/// Memory to try calls with, unless a rank has none: a pass that can be averaged does not fail for that.
fn room(bytes: usize, group: &Group, device: Option<&Device>) -> Result<Option<Memory>> {
    let Some(device) = device else { return Memory::shared(bytes, group).map(Some) };
    let memory = Memory::on_device(bytes, device);
    let lack = memory.as_ref().err().map(Error::to_string);
    match all_well(group, "measure on its device", lack) {
        Err(Error::Elsewhere { .. }) => Ok(None),
        answer => answer.and(memory).map(Some),
    }
}

/// After so many passes the order of gradients is known.
const KNOWN: u64 = 1;
/// After so many a pass is as all that follow: nothing is done for the first time.
const TRIED: u64 = 5;
/// So many bytes are tried out,
const SIZES: [usize; 3] = [64 << 10, 1 << 20, 8 << 20];
/// so many times, after a first one that does not count as it is slower.
const TURNS: usize = 3;
