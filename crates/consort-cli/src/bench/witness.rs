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
        let Some((after, before)) = passed().zip(before) else { return Ok(record) };
        let bytes = after.bytes.saturating_sub(before.bytes);
        let packets = after.packets.saturating_sub(before.packets);
        if bytes < least(point) || packets < FEWEST_PACKETS {
            let name = self.name();
            return Err(Refusal::Gone(format!(
                "{name} was told to use TCP, but only {bytes} bytes in {packets} packets passed \
                 the loopback interface during {point}"
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

/// What has passed the loopback interface so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Passed {
    bytes: u64,
    packets: u64,
}

/// `None` where the kernel does not say.
fn passed() -> Option<Passed> {
    received(&fs::read_to_string("/proc/self/net/dev").ok()?)
}

fn received(table: &str) -> Option<Passed> {
    let counters = table.lines().find_map(|line| line.trim_start().strip_prefix("lo:"))?;
    let mut counters = counters.split_ascii_whitespace().map(str::parse);
    Some(Passed { bytes: counters.next()?.ok()?, packets: counters.next()?.ok()? })
}

/// The least number of blocks, and the two calls that are checked left out.
const FEWEST_CALLS: u64 = 5;

/// Before each block there is a barrier, for which every rank has to say something.
const FEWEST_PACKETS: u64 = 2 * FEWEST_CALLS;

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
        assert_eq!(received(table), Some(Passed { bytes: 1234, packets: 5 }));
        assert_eq!(received("Inter-|\n eth0: 1 2\n"), None);
    }
}
