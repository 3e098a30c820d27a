//! The rank in front of each line.

/// Writes `[3] `, as wide for every rank of the job, in the rank's colour on a terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefixStyle {
    width: usize,
    coloured: bool,
}

impl PrefixStyle {
    /// For lines of a job of `world` ranks.
    pub(crate) fn new(world: u32, coloured: bool) -> Self {
        Self { width: world.saturating_sub(1).to_string().len(), coloured }
    }

    /// What stands in front of a rank's lines.
    pub(crate) fn prefix(self, rank: u32) -> Vec<u8> {
        let width = self.width;
        if self.coloured {
            let colour = COLOURS[rank as usize % COLOURS.len()];
            format!("\x1b[{colour}m[{rank:>width$}]\x1b[0m ").into_bytes()
        } else {
            format!("[{rank:>width$}] ").into_bytes()
        }
    }
}

/// Cyan, yellow, green, magenta, blue, and their bright sisters. Red is for failures.
const COLOURS: [u8; 10] = [36, 33, 32, 35, 34, 96, 93, 92, 95, 94];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_one_job_are_equally_wide() {
        let plain = PrefixStyle::new(64, false);
        assert_eq!(plain.prefix(3), b"[ 3] ");
        assert_eq!(plain.prefix(63), b"[63] ");
        assert_eq!(PrefixStyle::new(10, false).prefix(9), b"[9] ");
    }

    #[test]
    fn a_coloured_prefix_leaves_the_line_itself_alone() {
        assert_eq!(PrefixStyle::new(2, true).prefix(1), b"\x1b[33m[1]\x1b[0m ");
    }
}
