//! Pictures of digits as people might draw them, made from a seed.
//!
//! A picture is a pure function of the seed, the set and its number: whoever needs one makes it, and no
//! two ranks have to send each other any.

use super::random::Random;
use super::strokes::{Stroke, ways};

/// Pictures are so many pixels wide and high.
pub(crate) const SIDE: usize = 20;
/// How many pixels a picture has.
pub(crate) const PIXELS: usize = SIDE * SIDE;

/// Which pictures: those to learn from, or those that are kept back to see what was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// To learn from.
    Training,
    /// To see what was learned.
    Test,
}

impl Set {
    /// How many pictures there are in it.
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Training => 20_000,
            Self::Test => 1000,
        }
    }
}

/// One picture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Digit {
    /// What was drawn.
    pub(crate) label: u8,
    /// Line by line from the top; 0 is paper, 1 is ink.
    pub(crate) pixels: Vec<f32>,
}

/// What a picture of either set shows. As many are of each digit as of any other.
pub(crate) fn label(number: usize) -> u8 {
    (number % 10) as u8
}

/// Draws a picture of a set.
pub(crate) fn draw(seed: u64, set: Set, number: usize) -> Digit {
    let mut random = Random::of(&[seed, set as u64, number as u64]);
    let label = label(number);
    let ways = ways(label);
    // Most people draw a digit as they were taught.
    let way = if random.part() < 0.5 { 0 } else { random.below(ways.len()) };
    let hand = Hand::new(&mut random);
    let lines: Vec<Vec<(f32, f32)>> =
        ways[way].iter().map(|stroke| hand.follow(stroke, &mut random)).collect();
    let pen = Pen::new(&mut random);
    Digit { label, pixels: pen.paint(&lines, &mut random) }
}

/// How somebody draws: slanted, wide, shaky.
#[derive(Debug)]
struct Hand {
    /// Where a point goes: two rows of three numbers.
    across: [f32; 3],
    down: [f32; 3],
    shake: f32,
}

impl Hand {
    fn new(random: &mut Random) -> Self {
        let (turn, slant) = (0.16 * random.bell(), 0.22 * random.bell());
        let (sin, cos) = turn.sin_cos();
        let (width, height) = (random.between(0.55, 0.95), random.between(0.68, 0.98));
        let room = [(1.0 - width) / 2.0, (1.0 - height) / 2.0];
        let shift = room.map(|room| random.between(-room, room) * 0.8);
        let row = |x: f32, y: f32, shift: f32| [width * x, height * y, 0.5 + shift];
        Self {
            across: row(cos, -sin - slant, shift[0]),
            down: row(sin, cos, shift[1]),
            shake: random.between(0.005, 0.03),
        }
    }

    /// The line that the pen draws, as many short straight ones.
    fn follow(&self, stroke: &Stroke, random: &mut Random) -> Vec<(f32, f32)> {
        let points: Vec<(f32, f32)> =
            stroke.points.iter().map(|&point| self.place(point, random)).collect();
        if !stroke.is_curved {
            return points;
        }
        let at = |index: isize| points[index.clamp(0, points.len() as isize - 1) as usize];
        let mut line = vec![points[0]];
        for index in 0..points.len() as isize - 1 {
            let around = [at(index - 1), at(index), at(index + 1), at(index + 2)];
            line.extend((1..=PIECES).map(|piece| between(around, piece as f32 / PIECES as f32)));
        }
        line
    }

    fn place(&self, (x, y): (f32, f32), random: &mut Random) -> (f32, f32) {
        let x = x - 0.5 + self.shake * random.bell();
        let y = y - 0.5 + self.shake * random.bell();
        let row = |[of_x, of_y, shift]: [f32; 3]| of_x * x + of_y * y + shift;
        (row(self.across), row(self.down))
    }
}

/// What it is drawn with, and on.
#[derive(Debug)]
struct Pen {
    radius: f32,
    softness: f32,
    ink: f32,
    grain: f32,
}

impl Pen {
    fn new(random: &mut Random) -> Self {
        Self {
            radius: random.between(0.55, 1.35),
            softness: random.between(0.6, 1.3),
            ink: random.between(0.65, 1.0),
            grain: random.between(0.02, 0.12),
        }
    }

    fn paint(&self, lines: &[Vec<(f32, f32)>], random: &mut Random) -> Vec<f32> {
        let scale = |(x, y): (f32, f32)| (x * SIDE as f32, y * SIDE as f32);
        let segments: Vec<Segment> = lines
            .iter()
            .flat_map(|line| {
                line.windows(2).map(|ends| Segment::new(scale(ends[0]), scale(ends[1])))
            })
            .collect();
        let pixel = |at: usize| {
            let middle = ((at % SIDE) as f32 + 0.5, (at / SIDE) as f32 + 0.5);
            let far =
                segments.iter().map(|segment| segment.far_squared(middle)).fold(f32::MAX, f32::min);
            let covered = ((self.radius - far.sqrt()) / self.softness + 0.5).clamp(0.0, 1.0);
            (self.ink * covered + self.grain * random.bell()).clamp(0.0, 1.0)
        };
        (0..PIXELS).map(pixel).collect()
    }
}

/// A straight piece of a line.
#[derive(Clone, Copy, Debug)]
struct Segment {
    from: (f32, f32),
    by: (f32, f32),
    length_squared: f32,
}

impl Segment {
    fn new(from: (f32, f32), to: (f32, f32)) -> Self {
        let by = (to.0 - from.0, to.1 - from.1);
        Self { from, by, length_squared: (by.0 * by.0 + by.1 * by.1).max(f32::MIN_POSITIVE) }
    }

    /// The square of a point's distance from it.
    fn far_squared(&self, (x, y): (f32, f32)) -> f32 {
        let (x, y) = (x - self.from.0, y - self.from.1);
        let along = ((x * self.by.0 + y * self.by.1) / self.length_squared).clamp(0.0, 1.0);
        let (x, y) = (x - along * self.by.0, y - along * self.by.1);
        x * x + y * y
    }
}

/// A point of the curve through the second and the third of four points, which comes from the first and
/// goes to the fourth (Catmull and Rom's).
fn between([before, from, to, after]: [(f32, f32); 4], part: f32) -> (f32, f32) {
    let (square, cube) = (part * part, part * part * part);
    let weights = [
        -0.5 * cube + square - 0.5 * part,
        1.5 * cube - 2.5 * square + 1.0,
        -1.5 * cube + 2.0 * square + 0.5 * part,
        0.5 * cube - 0.5 * square,
    ];
    let points = [before, from, to, after];
    let sum =
        |of: fn(&(f32, f32)) -> f32| points.iter().zip(weights).map(|(it, by)| of(it) * by).sum();
    (sum(|point| point.0), sum(|point| point.1))
}

/// So many straight lines make a curve between two points.
const PIECES: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_pictures_and_another_others() {
        for number in 0..30 {
            let picture = draw(1, Set::Training, number);
            assert_eq!(picture, draw(1, Set::Training, number));
            assert_ne!(picture.pixels, draw(2, Set::Training, number).pixels);
            assert_ne!(picture.pixels, draw(1, Set::Test, number).pixels);
        }
    }

    #[test]
    fn every_digit_is_drawn_as_often() {
        for set in [Set::Training, Set::Test] {
            assert_eq!(set.len() % 10, 0);
            let mut counts = [0; 10];
            (0..200).for_each(|number| counts[usize::from(draw(1, set, number).label)] += 1);
            assert_eq!(counts, [20; 10]);
        }
    }

    #[test]
    fn pictures_are_mostly_paper_with_a_line_of_ink() {
        for number in 0..200 {
            let Digit { label, pixels } = draw(9, Set::Training, number);
            assert_eq!(pixels.len(), PIXELS);
            assert!(pixels.iter().all(|pixel| (0.0..=1.0).contains(pixel)));
            let dark = pixels.iter().filter(|pixel| **pixel > 0.4).count();
            assert!((12..200).contains(&dark), "{dark} dark pixels in picture {number}, a {label}");
        }
    }

    #[test]
    fn a_curve_goes_through_its_points() {
        let points = [(0.0, 0.0), (1.0, 2.0), (3.0, 1.0), (4.0, 4.0)];
        assert_eq!(between(points, 0.0), points[1]);
        assert_eq!(between(points, 1.0), points[2]);
    }
}
