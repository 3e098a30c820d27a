//! Whether what was to go over TCP did: the kernel counts what passes the loopback interface.

use std::fs;

use super::measurer::{Measurer, Refusal};
use super::point::Point;
use super::record::Record;

/// A measurer whose ranks are all here and were told to use TCP. It is not believed if hardly
/// anything went that way.
pub(crate) struct Witnessed(pub(crate) Box<dyn Measurer>);

impl Measurer for Witnessed {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn measure(&mut self, point: &Point) -> Result<Record, Refusal> {
        let before = passed();
        let record = self.0.measure(point)?;
        let Some(passed) = passed().zip(before).map(|(after, before)| after - before) else {
            return Ok(record);
        };
        if passed < least(point) {
            let name = self.name();
            return Err(Refusal::Gone(format!(
                "{name} was told to use TCP, but only {passed} bytes passed the loopback \
                 interface during {point}"
            )));
        }
        Ok(record)
    }
}

/// However a point is timed, there are a few calls, and in each some rank gets half the bytes from
/// others. Others' data on the interface may hide a cheat, but makes no cheat of an honest one.
fn least(point: &Point) -> u64 {
    FEWEST_CALLS * point.bytes as u64 / 2
}

/// How many bytes have passed so far. `None` where the kernel does not say.
fn passed() -> Option<u64> {
    received(&fs::read_to_string("/proc/self/net/dev").ok()?)
}

fn received(table: &str) -> Option<u64> {
    let counters = table.lines().find_map(|line| line.trim_start().strip_prefix("lo:"))?;
    counters.split_ascii_whitespace().next()?.parse().ok()
}

/// The least number of blocks, and the two calls that are checked left out.
const FEWEST_CALLS: u64 = 5;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::super::op::Op;
    use super::super::point::tests::point;
    use super::super::record::tests::record;
    use super::*;

    /// Claims to have measured, and sends so many bytes over the loopback interface meanwhile.
    struct Sender(usize);

    impl Measurer for Sender {
        fn name(&self) -> &str {
            "sender"
        }

        fn measure(&mut self, point: &Point) -> Result<Record, Refusal> {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut far, _) = listener.accept().unwrap();
            let reading = thread::spawn(move || far.read_to_end(&mut Vec::new()).unwrap());
            near.write_all(&vec![0; self.0]).unwrap();
            drop(near);
            assert_eq!(reading.join().unwrap(), self.0);
            Ok(record("sender", point.op, point.bytes, 1.0))
        }
    }

    #[test]
    fn whoever_sends_its_bytes_is_believed_and_whoever_does_not_is_not() {
        // So many that nothing else on this machine makes up for them.
        let point = point(Op::AllReduce, 1 << 40);
        let refusal = Witnessed(Box::new(Sender(1000))).measure(&point).unwrap_err();
        let Refusal::Gone(why) = refusal else { panic!("{refusal:?}") };
        assert!(why.starts_with("sender was told to use TCP, but only "), "{why}");
        let honest = super::super::point::tests::point(Op::AllReduce, 1 << 20);
        assert!(Witnessed(Box::new(Sender(5 << 20))).measure(&honest).is_ok());
    }

    #[test]
    fn the_counter_is_found_among_those_of_other_interfaces() {
        let table = "Inter-|   Receive\n face |bytes    packets\n  flo: 7 1 0\n    lo: 1234 5 0\n";
        assert_eq!(received(table), Some(1234));
        assert_eq!(received("Inter-|\n eth0: 1 2\n"), None);
    }
}
