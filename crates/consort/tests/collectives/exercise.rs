//! A call with all that it needs, which can be made in every way there is.

use consort::symm::{Kept, Symmetric};
use consort::{
    Call, Deadline, Dtype, Group, Inputs, Lists, Outputs, OwnedCall, Rank, ReduceOp, Target, Work,
};

use super::meet::LIMIT;
use super::room::Room;

/// What is called.
#[derive(Clone, Copy)]
pub(crate) enum What {
    AllReduce(ReduceOp),
    Reduce(ReduceOp, Rank),
    ReduceScatter(ReduceOp),
    Broadcast(Rank),
    AllGather,
    Gather(Rank),
    Scatter(Rank),
    AllToAll,
}

/// A call of one rank, with its buffers.
///
/// If one of two buffers is missing, the call is made in place, or this rank does not need it.
pub(crate) struct Exercise {
    pub(crate) what: What,
    pub(crate) dtype: Dtype,
    pub(crate) input: Option<Room>,
    pub(crate) output: Option<Room>,
    me: usize,
    world: usize,
}

impl Exercise {
    pub(crate) fn new(
        group: &Group,
        what: What,
        dtype: Dtype,
        input: Option<Room>,
        output: Option<Room>,
    ) -> Self {
        Self { what, dtype, input, output, me: group.rank().index(), world: group.world() }
    }

    /// The call, on this memory instead of the buffers.
    fn on<'a>(&self, input: Option<Target<'a>>, output: Option<Target<'a>>) -> Call<'a> {
        let &Self { what, dtype, me, world, .. } = self;
        let is_root = |root: Rank| root.index() == me;
        let one = || input.or(output).expect("a buffer at least");
        match what {
            What::AllReduce(op) => {
                Call::AllReduce { dtype, op, input: one().into(), output: output.unwrap_or(one()) }
            }
            What::Reduce(op, root) => {
                let output = is_root(root).then(|| output.unwrap_or(one()));
                Call::Reduce { dtype, op, root, input: one().into(), output }
            }
            What::ReduceScatter(op) => {
                let own = Outputs::Equal(one()).part(me, world);
                let (inputs, output) = (Inputs::Equal(one().into()), output.unwrap_or(own));
                Call::ReduceScatter { dtype, op, inputs, output }
            }
            What::Broadcast(root) => Call::Broadcast { dtype, root, buffer: one() },
            What::AllGather => {
                let outputs = Outputs::Equal(output.expect("everyone has one"));
                let input = input.unwrap_or(outputs.part(me, world)).into();
                Call::AllGather { dtype, input, outputs }
            }
            What::Gather(root) => {
                let outputs = output.map(Outputs::Equal);
                Call::Gather { dtype, root, uneven: false, input: one().into(), outputs }
            }
            What::Scatter(root) => {
                let inputs = input.map(|input| Inputs::Equal(input.into()));
                let output = output.expect("everyone has one");
                Call::Scatter { dtype, root, uneven: false, inputs, output }
            }
            What::AllToAll => {
                let inputs = Inputs::Equal(one().into());
                let outputs = Outputs::Equal(output.unwrap_or(one()));
                Call::AllToAll { dtype, uneven: false, inputs, outputs }
            }
        }
    }

    fn on_its_buffers(&mut self) -> Call<'_> {
        let this = Self { input: None, output: None, ..*self };
        let (input, output) = (self.input.as_mut(), self.output.as_mut());
        this.on(input.map(Room::target), output.map(Room::target))
    }
}

impl OwnedCall for Exercise {
    fn call<'a>(&'a mut self, _lists: &'a mut Lists<'a>) -> Call<'a> {
        self.on_its_buffers()
    }
}

/// The same call on copies of its input, and perhaps of its output, in a window that it owns.
struct InKept {
    exercise: Exercise,
    window: Kept<u8>,
    lies_there: bool,
}

impl InKept {
    fn new(exercise: Exercise, mut window: Kept<u8>, call: u64) -> Self {
        let lies_there = exercise.input.is_none() || call % 4 < 2;
        let (one, other) = halves(&mut window);
        if let Some(room) = &exercise.input {
            room.move_into(one);
        }
        if let Some(room) = exercise.output.as_ref().filter(|_| lies_there) {
            room.move_into(other);
        }
        Self { exercise, window, lies_there }
    }

    fn done(self) -> Exercise {
        let Self { mut exercise, mut window, lies_there } = self;
        let (one, other) = halves(&mut window);
        exercise.input.iter_mut().for_each(|room| room.move_back(one));
        if lies_there {
            exercise.output.iter_mut().for_each(|room| room.move_back(other));
        }
        exercise
    }
}

impl OwnedCall for InKept {
    fn call<'a>(&'a mut self, _lists: &'a mut Lists<'a>) -> Call<'a> {
        let this = Exercise { input: None, output: None, ..self.exercise };
        let (one, other) = halves(&mut self.window);
        let input = self.exercise.input.as_ref().map(|room| room.target_in(one));
        let output = self.exercise.output.as_mut().map(|room| match self.lies_there {
            true => room.target_in(other),
            false => room.target(),
        });
        this.on(input, output)
    }
}

fn halves(window: &mut [u8]) -> (&mut [u8], &mut [u8]) {
    window.split_at_mut(window.len() / 2)
}

/// Who makes calls, and how.
pub(crate) struct Caller<'a> {
    pub(crate) group: &'a Group,
    how: How,
}

enum How {
    Here,
    InBackground,
    /// On copies of the inputs, and of outputs, in this rank's window.
    InWindow(Symmetric<u8>),
    /// The same, by calls that own the window.
    InKeptWindow(Symmetric<u8>),
}

impl<'a> Caller<'a> {
    /// On this thread.
    pub(crate) fn here(group: &'a Group) -> Self {
        Self { group, how: How::Here }
    }

    /// Calls that own their buffers: every other one is carried out by this thread after all, which
    /// waits for it.
    pub(crate) fn in_background(group: &'a Group) -> Self {
        Self { group, how: How::InBackground }
    }

    /// On this thread, with the inputs in symmetric memory, and the outputs of half of the calls.
    /// It has so many bytes for each.
    pub(crate) fn in_window(group: &'a Group, bytes: usize) -> Self {
        Self { group, how: How::InWindow(windows(group, bytes)) }
    }

    /// The same, by calls that own the window and are carried out as those
    /// [in the background](Self::in_background).
    pub(crate) fn in_kept_window(group: &'a Group, bytes: usize) -> Self {
        Self { group, how: How::InKeptWindow(windows(group, bytes)) }
    }

    pub(crate) fn me(&self) -> usize {
        self.group.rank().index()
    }

    pub(crate) fn world(&self) -> usize {
        self.group.world()
    }

    /// Carries it out, and gives the buffers back.
    pub(crate) fn carry_out(&self, mut exercise: Exercise) -> Exercise {
        match &self.how {
            How::Here => self.group.call(&exercise.on_its_buffers()).unwrap(),
            How::InBackground => return result_of(self.group.call_async(exercise).unwrap()),
            How::InKeptWindow(memory) => {
                let call = InKept::new(exercise, memory.keep().unwrap(), self.group.calls());
                return result_of(self.group.call_async(call).unwrap()).done();
            }
            How::InWindow(memory) => {
                let mut window = memory.local().unwrap();
                let (one, other) = halves(&mut window);
                let mut result = exercise.output.take();
                let input = exercise.input.as_ref().map(|room| room.move_into(one));
                let lies_there = input.is_none() || self.group.calls() % 4 < 2;
                let output = result.as_mut().map(|room| match lies_there {
                    true => room.move_into(other),
                    false => room.target(),
                });
                self.group.call(&exercise.on(input, output)).unwrap();
                exercise.input.as_mut().into_iter().for_each(|room| room.move_back(one));
                if lies_there {
                    result.as_mut().into_iter().for_each(|room| room.move_back(other));
                }
                exercise.output = result;
            }
        }
        exercise
    }
}

/// This thread carries out every other call that it waits for.
fn result_of<T>(work: Work<T>) -> T {
    match work.number().is_multiple_of(2) {
        true => work.wait().unwrap(),
        false => work.wait_until(Deadline::after(LIMIT)).expect("there is time").unwrap(),
    }
}

/// With room for an input and an output of so many bytes.
fn windows(group: &Group, bytes: usize) -> Symmetric<u8> {
    let margins = 2 * Room::MARGIN;
    group.symmetric(2 * (bytes + margins).next_multiple_of(64)).unwrap()
}
