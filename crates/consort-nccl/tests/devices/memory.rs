//! Memory of devices: what is copied and filled there.

use consort::device::Driver;

use crate::stage::{download, upload, with_devices};

#[test]
fn memory_of_a_device_is_copied_and_filled_within_its_bounds() {
    with_devices(1)
        .start(|_| {
            let driver = Driver::load().unwrap();
            let (device, other) = (driver.device(2).unwrap(), driver.device(3).unwrap());
            let numbers: Vec<u8> = (0..=255).collect();
            let (mut to, from) = (device.allocate(1001).unwrap(), upload(&device, &numbers));
            to.fill(0..1001, 9).unwrap();
            to.copy_from(700, from.source().slice(3..256)).unwrap();
            let mut back = upload(&device, &[0_u8; 10]);
            to.copy_to(699, back.target().slice(1..10)).unwrap();
            assert_eq!(download::<u8>(&back), [0, 9, 3, 4, 5, 6, 7, 8, 9, 10]);
            to.fill(701..1000, 1).unwrap();
            let all = download::<u8>(&to);
            assert_eq!((all[699], all[700], all[701], all[999], all[1000]), (9, 3, 1, 1, 9));
            // Nothing is nowhere, and no mistake.
            to.fill(1001..1001, 0).unwrap();
            to.copy_from(1001, device.allocate(0).unwrap().source()).unwrap();
            to.copy_to(1001, device.allocate(0).unwrap().target()).unwrap();
            for error in [
                to.copy_from(746, from.source()).unwrap_err(),
                to.copy_to(992, back.target()).unwrap_err(),
                to.fill(1000..1002, 0).unwrap_err(),
            ] {
                assert!(error.to_string().contains("do not fit"), "{error}");
            }
            let mut elsewhere = other.allocate(8).unwrap();
            let mut here = [0_u8; 8];
            for (error, whose) in [
                (to.copy_from(0, elsewhere.source()).unwrap_err(), "device 3"),
                (to.copy_to(0, elsewhere.target()).unwrap_err(), "device 3"),
                (to.copy_from(0, (&here[..]).into()).unwrap_err(), "the host"),
                (to.copy_to(0, (&mut here[..]).into()).unwrap_err(), "the host"),
            ] {
                let text = error.to_string();
                assert!(
                    text.starts_with(&format!("bytes of {whose} cannot be copied within device 2")),
                    "{text}"
                );
            }
        })
        .expect_all();
}
