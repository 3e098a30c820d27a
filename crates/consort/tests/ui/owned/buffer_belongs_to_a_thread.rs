//! Another thread carries out the call, and may drop the buffer.

use std::rc::Rc;

use consort::Input;

struct Counted(Rc<[f32]>);

impl Input for Counted {
    type Element = f32;

    fn elements(&self) -> &[f32] {
        &self.0
    }
}

fn main() {}
