//! What NVIDIA's own NCCL says of communicators that are none.

use std::ptr;

use consort_testkit::skip;

use super::super::tests::real;
use super::*;

#[test]
fn the_real_one_refuses_what_is_no_communicator() {
    let library = match real() {
        Ok(library) => library,
        Err(reason) => return skip(reason),
    };
    let (table, null) = (library.table(), ptr::null_mut());
    let (mut number, mut bytes) = (0, [0_u8; 4]);
    // SAFETY: NCCL looks for null first, here and below.
    assert_eq!(unsafe { table.comm_count(null, &mut number) }, Ok(4));
    // SAFETY: as above.
    assert_eq!(unsafe { table.comm_user_rank(null, &mut number) }, Ok(4));
    // SAFETY: as above.
    assert_eq!(unsafe { table.comm_get_async_error(null, &mut number) }, Ok(4));
    let place = bytes.as_mut_ptr();
    // SAFETY: as above.
    assert_eq!(unsafe { table.all_reduce(place, place, 1, 7, 0, null, null) }, Ok(4));
    let last = table.last_error(None).unwrap();
    assert!(last.contains("comm"), "{last:?}");
    // SAFETY: null is allowed here.
    assert_eq!(unsafe { table.comm_destroy(null) }, Ok(0));
    // SAFETY: as above.
    assert_eq!(unsafe { table.comm_abort(null) }, Ok(0));
}

#[test]
fn structures_have_the_sizes_of_the_header() {
    assert_eq!(size_of::<RawId>(), 128);
    assert_eq!(size_of::<Awaited>(), 16);
    assert_eq!(size_of::<SimInfo>(), 24);
    assert_eq!(std::mem::offset_of!(SimInfo, estimated_time), 16);
}
