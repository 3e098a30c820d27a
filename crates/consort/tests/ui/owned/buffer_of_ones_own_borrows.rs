//! Nor can a buffer that hides what it borrows.

use consort::Input;

struct Borrowed<'a>(&'a [f32]);

impl Input for Borrowed<'_> {
    type Element = f32;

    fn elements(&self) -> &[f32] {
        self.0
    }
}

fn main() {}
