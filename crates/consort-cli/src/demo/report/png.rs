//! A grey picture as bytes that browsers know: PNG, stored as it is, and base64 to put it into a page.

/// A picture in which 0 is black and 255 is white, as the address of an `img`.
pub(crate) fn address(width: usize, pixels: &[u8]) -> String {
    format!("data:image/png;base64,{}", base64(&png(width, pixels)))
}

fn png(width: usize, pixels: &[u8]) -> Vec<u8> {
    let height = pixels.len() / width.max(1);
    let mut header = Vec::new();
    header.extend((width as u32).to_be_bytes());
    header.extend((height as u32).to_be_bytes());
    // Eight bits of grey, nothing unusual.
    header.extend([8, 0, 0, 0, 0]);
    // Every line says first that it is not filtered.
    let lines: Vec<u8> = pixels
        .chunks(width.max(1))
        .flat_map(|line| std::iter::once(&0).chain(line))
        .copied()
        .collect();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, content) in [(b"IHDR", header), (b"IDAT", zlib(&lines)), (b"IEND", Vec::new())] {
        file.extend((content.len() as u32).to_be_bytes());
        let begin = file.len();
        file.extend(kind);
        file.extend(content);
        let sum = crc(&file[begin..]);
        file.extend(sum.to_be_bytes());
    }
    file
}

/// The zlib format with blocks that are stored.
fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let count = bytes.len().div_ceil(LARGEST_BLOCK).max(1);
    for number in 0..count {
        let block = &bytes[number * LARGEST_BLOCK..bytes.len().min((number + 1) * LARGEST_BLOCK)];
        let length = block.len() as u16;
        stream.push(u8::from(number + 1 == count));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(block);
    }
    stream.extend(adler(bytes).to_be_bytes());
    stream
}

fn adler(bytes: &[u8]) -> u32 {
    let (low, high) = bytes.iter().fold((1_u32, 0_u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    high << 16 | low
}

fn crc(bytes: &[u8]) -> u32 {
    let step = |sum: u32| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
    !bytes
        .iter()
        .fold(u32::MAX, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum)))
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for some in bytes.chunks(3) {
        let word = some.iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - some.len()));
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= some.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const LARGEST_BLOCK: usize = 65_535;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_letters_are_those_of_the_standards() {
        // The examples of RFC 4648, and the check value of this CRC.
        let pairs =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (bytes, text) in pairs {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
        assert_eq!(adler(b"Wikipedia"), 0x11e6_0398);
    }

    #[test]
    fn a_picture_has_its_size_and_its_lines() {
        let file = png(3, &[10, 20, 30, 40, 50, 60]);
        assert_eq!(&file[12..24], b"IHDR\0\0\0\x03\0\0\0\x02");
        let lines = [0, 10, 20, 30, 0, 40, 50, 60];
        assert!(file.windows(lines.len()).any(|some| some == lines));
        assert_eq!(file.len(), 8 + 3 * 12 + 13 + (2 + 5 + lines.len() + 4));
    }

    #[test]
    fn what_is_longer_than_a_block_has_several() {
        let stream = zlib(&vec![7; LARGEST_BLOCK + 2]);
        assert_eq!(stream[2], 0);
        assert_eq!(stream[2 + 5 + LARGEST_BLOCK..][..5], [1, 2, 0, 253, 255]);
    }
}
