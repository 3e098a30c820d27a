//! A call that is known only at run time owns its memory as well.

use consort::{Call, Dtype, Element, Lists, OwnedCall, Rank};

struct Borrowed<'b>(&'b mut [f32]);

impl OwnedCall for Borrowed<'_> {
    fn call<'a>(&'a mut self, _lists: &'a mut Lists<'a>) -> Call<'a> {
        let buffer = f32::target(self.0);
        Call::Broadcast { dtype: Dtype::F32, root: Rank::from(0), buffer }
    }
}

fn main() {}
