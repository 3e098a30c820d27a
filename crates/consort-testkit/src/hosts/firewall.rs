//! A firewall on an interface: a small packet filter that `tc` hands to the kernel.
//!
//! It keeps no memory of connections and needs none: a connection begins with a segment that has
//! SYN set and ACK not, and every answer has ACK set. So it drops beginnings, except at open ports,
//! and everything that is not TCP. Only what hosts need to find each other at all passes: ARP and
//! ICMP.

use super::space::NameSpace;
use crate::skip::Skip;

/// Lets in only connections to these TCP ports, and answers.
pub(super) fn put(space: &NameSpace, interface: &str, open: &[u16]) -> Result<(), Skip> {
    let needs = |reason| Skip::new(format!("a firewall needs tc's clsact and bpf: {reason}"));
    let filter = filter(open);
    let words = [filter.len().to_string()];
    let words = words.into_iter().chain(filter.iter().map(Step::text)).collect::<Vec<_>>();
    space.attempt("tc", &["qdisc", "add", "dev", interface, "clsact"]).map_err(needs)?;
    let place = ["filter", "add", "dev", interface, "ingress", "protocol", "all"];
    let what = ["bpf", "direct-action", "bytecode", &words.join(",")];
    space.attempt("tc", &[place.as_slice(), &what].concat()).map_err(needs)?;
    Ok(())
}

/// The filter, as instructions of the classic packet filter. A step that compares names how many
/// steps to leave out if the value is the one, and if it is not.
fn filter(open: &[u16]) -> Vec<Step> {
    let mut steps = vec![
        Step::load_half(ETHERNET_TYPE),
        Step::compare(ARP, 0, 1),
        PASS,
        Step::compare(IPV6, 0, 3),
        Step::set_offset(IPV6_HEADER),
        Step::load_byte(IPV6_NEXT),
        Step::leave_out(4),
        Step::compare(IPV4, 1, 0),
        DROP,
        Step::set_offset_to_ipv4_header(),
        Step::load_byte(IPV4_PROTOCOL),
        // Here the IP header's length is the offset and the protocol inside it is loaded.
        Step::compare(ICMP_V6, 1, 0),
        Step::compare(ICMP, 0, 1),
        PASS,
        Step::compare(TCP, 1, 0),
        DROP,
        Step::load_byte_at_offset(TCP_FLAGS),
        Step::mask(SYN | ACK),
        Step::compare(SYN, 1, 0),
        PASS,
        Step::load_half_at_offset(TCP_PORT),
    ];
    for port in open {
        steps.extend([Step::compare(u32::from(*port), 0, 1), PASS]);
    }
    steps.push(DROP);
    steps
}

/// One instruction: its code, how many steps to leave out if it holds and if not, and a value.
#[derive(Clone, Copy, Debug)]
struct Step(u16, u8, u8, u32);

impl Step {
    fn load_byte(at: u32) -> Self {
        Self(0x30, 0, 0, at)
    }

    fn load_half(at: u32) -> Self {
        Self(0x28, 0, 0, at)
    }

    fn load_byte_at_offset(at: u32) -> Self {
        Self(0x50, 0, 0, at)
    }

    fn load_half_at_offset(at: u32) -> Self {
        Self(0x48, 0, 0, at)
    }

    fn set_offset(offset: u32) -> Self {
        Self(0x01, 0, 0, offset)
    }

    /// There is an instruction for just this: four times the low half of a byte.
    fn set_offset_to_ipv4_header() -> Self {
        Self(0xb1, 0, 0, ETHERNET_HEADER)
    }

    fn mask(bits: u32) -> Self {
        Self(0x54, 0, 0, bits)
    }

    fn compare(value: u32, if_equal: u8, else_: u8) -> Self {
        Self(0x15, if_equal, else_, value)
    }

    fn leave_out(steps: u32) -> Self {
        Self(0x05, 0, 0, steps)
    }

    fn text(&self) -> String {
        let Self(code, yes, no, value) = self;
        format!("{code} {yes} {no} {value}")
    }
}

/// The verdicts of a filter that `tc` asks.
const PASS: Step = Step(0x06, 0, 0, 0);
const DROP: Step = Step(0x06, 0, 0, 2);

const ETHERNET_TYPE: u32 = 12;
const ETHERNET_HEADER: u32 = 14;
const IPV4_PROTOCOL: u32 = ETHERNET_HEADER + 9;
const IPV6_NEXT: u32 = ETHERNET_HEADER + 6;
const IPV6_HEADER: u32 = 40;
const TCP_PORT: u32 = ETHERNET_HEADER + 2;
const TCP_FLAGS: u32 = ETHERNET_HEADER + 13;

const ARP: u32 = 0x0806;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const ICMP: u32 = 1;
const TCP: u32 = 6;
const ICMP_V6: u32 = 58;
const SYN: u32 = 0x02;
const ACK: u32 = 0x10;
