//! Checksums that the kernel leaves to a network card, where there is none.

/// Writes the checksum of the TCP or UDP packet in an Ethernet frame, if there is one.
pub(super) fn complete(frame: &mut [u8]) {
    let Some(Inside { protocol, addresses, from, to }) = Inside::of(frame) else { return };
    let field = match protocol {
        TCP => from + 16,
        UDP => from + 6,
        _ => return,
    };
    if to > frame.len() || field + 2 > to {
        return;
    }
    frame[field..field + 2].fill(0);
    let length = u64::try_from(to - from).expect("a frame is short");
    let mut total = sum(&frame[addresses.0..addresses.1]) + u64::from(protocol) + length;
    total += sum(&frame[from..to]);
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    let checksum = match !u16::try_from(total).expect("folded above") {
        // In UDP zero says that there is none; both mean the same in this arithmetic.
        0 if protocol == UDP => 0xffff,
        checksum => checksum,
    };
    frame[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// What an IP header says about the packet inside: what it is, and where in the frame the addresses
/// and the packet stand.
struct Inside {
    protocol: u8,
    addresses: (usize, usize),
    from: usize,
    to: usize,
}

impl Inside {
    fn of(frame: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
        match number(12)? {
            0x0800 => {
                let header = usize::from(frame.get(14)? & 0x0f) * 4;
                let (from, to) = (14 + header, 14 + usize::from(number(16)?));
                Some(Self { protocol: *frame.get(23)?, addresses: (26, 34), from, to })
            }
            0x86dd => {
                let to = 54 + usize::from(number(18)?);
                Some(Self { protocol: *frame.get(20)?, addresses: (22, 54), from: 54, to })
            }
            _ => None,
        }
    }
}

/// The sum of the big-endian pairs of bytes, an odd last one filled up with zero.
fn sum(bytes: &[u8]) -> u64 {
    let pair = |pair: &[u8]| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
    bytes.chunks(2).map(|two| u64::from(pair(two))).sum()
}

const TCP: u8 = 6;
const UDP: u8 = 17;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_ends_early_or_lies_about_its_length_is_left_alone() {
        for (kind, length_at) in [([0x08, 0x00], 16), ([0x86, 0xdd], 18)] {
            let mut whole = [0; 80];
            whole[12..14].copy_from_slice(&kind);
            whole[14] = 0x45;
            (whole[20], whole[23]) = (TCP, TCP);
            whole[length_at..length_at + 2].fill(0xff);
            for length in 0..whole.len() {
                let mut frame = whole[..length].to_vec();
                complete(&mut frame);
                assert_eq!(frame, whole[..length]);
            }
        }
    }

    #[test]
    fn a_whole_packet_with_its_checksum_sums_to_nothing() {
        let mut frame = vec![0; 14 + 20];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        (frame[14], frame[17], frame[23]) = (0x45, 20 + 8 + 3, UDP);
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x10, 0x00, 0x20, 0x00, 0, 11, 0xab, 0xcd, b'a', b'b', b'c']);
        complete(&mut frame);
        let total = sum(&frame[26..34]) + u64::from(UDP) + 11 + sum(&frame[34..]);
        assert_eq!(total % 0xffff, 0);
        assert_ne!(frame[40..42], [0xab, 0xcd]);
    }
}
