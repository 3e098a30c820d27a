//! What ranks hear when there is no id to meet by.

use consort::Error;
use consort_testkit::skip;

use crate::older::{can_be_made, find_another};
use crate::stage::{meet, with_devices};
use crate::sums::next;

#[test]
fn all_hear_from_rank_0_itself_why_there_is_no_id() {
    if let Err(reason) = can_be_made() {
        return skip(reason);
    }
    with_devices(4)
        .start(|ctx| {
            if ctx.rank() == 0 {
                find_another(&ctx.dir().join("libnameless.so"), &["-DNAMELESS"]);
            }
            let group = meet(ctx);
            for _ in 0..20 {
                // A group makes its engine once.
                let same = group.split(Some(0), 0).unwrap().unwrap();
                let error = next(&same, &[1.0; 8]).unwrap_err();
                assert!(matches!(error, Error::PeerUnable { rank: 0, .. }), "{error}");
                assert!(error.to_string().contains("ncclGetUniqueId"), "{error}");
            }
        })
        .expect_all();
}
