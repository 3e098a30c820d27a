//! One process that learns without any other, as every candle program does: what ranks are held against.

use std::error::Error;

use candle_core::{DType, Device};
use candle_nn::{AdamW, Optimizer, VarBuilder, VarMap};

use super::lesson::{Lesson, optimizer};
use super::model::{Net, initialise};
use super::words::{Span, Step, Task, Word};
use crate::bench::asker::say;
use crate::bench::timing::now;

/// Learns, and tells of every step.
pub(crate) fn learn(task: Task) -> Result<(), Box<dyn Error>> {
    let parameters = VarMap::new();
    let net = Net::new(VarBuilder::from_varmap(&parameters, DType::F32, &Device::Cpu))?;
    initialise(&parameters, task.seed)?;
    let all = parameters.all_vars();
    let numbers = all.iter().map(|parameter| parameter.elem_count()).sum();
    say(&Word::Ready { numbers, parameters: all.len() })?;
    let mut changes = AdamW::new(all, optimizer())?;
    let mut lesson = Lesson::new(task);
    for number in 0..task.steps {
        let from = now();
        let pictures = lesson.pictures(number, 0, 1);
        let judged = lesson.judge(&net, &pictures, 1)?;
        let gradients = judged.part.backward()?;
        changes.set_learning_rate(lesson.rate(number));
        changes.step(&gradients)?;
        let (loss, span) = (judged.sum / task.batch as f64, Span { from, to: now() });
        say(&Word::Step(Step { number, world: 1, loss, span, pass: None }))?;
    }
    say(&Word::Tested(lesson.test(&net, 0, 1)?))?;
    say(&Word::Done)?;
    Ok(())
}
