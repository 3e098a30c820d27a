//! Meshes as tables.

use std::fmt;

use super::Mesh;

/// The last two dimensions are a table, with a heading for each index of those before them; a mesh of one
/// dimension is a row. This rank is in brackets. Of many columns, rows and tables the first and the last
/// few are shown, and those with this rank; `…` stands for the others.
///
/// ```
/// use consort::{Group, Mesh};
///
/// let mesh = Mesh::new(&Group::fake(5, 8)?, &[2, 2, 2], &["data", "pipeline", "tensor"])?;
/// let tables = "
/// data 0
///          │ tensor
/// pipeline │  0   1
/// ─────────┼────────
///        0 │  0   1
///        1 │  2   3
///
/// data 1
///          │ tensor
/// pipeline │  0   1
/// ─────────┼────────
///        0 │  4  [5]
///        1 │  6   7";
/// assert_eq!(format!("\n{mesh}"), tables);
/// assert_eq!(mesh.sub(&["data"])?.to_string(), "data │  1  [5]");
/// # Ok::<(), consort::Error>(())
/// ```
impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shape, names) = (self.shape(), self.names());
        let mine = self.coordinate();
        let width = self.ranks().iter().max().map_or(1, |rank| rank.to_string().len());
        let drawing = Drawing { mesh: self, mine: mine.as_deref(), width };
        let (outer, inner) = shape.split_at(shape.len().saturating_sub(2));
        let lines = match inner {
            [columns] => vec![drawing.row(&names, *columns)],
            _ => drawing.tables(outer, inner, &names),
        };
        f.write_str(&lines.join("\n"))
    }
}

struct Drawing<'a> {
    mesh: &'a Mesh,
    /// This rank's coordinate.
    mine: Option<&'a [usize]>,
    /// How many digits a rank has.
    width: usize,
}

impl Drawing<'_> {
    fn row(&self, names: &[&str], columns: usize) -> String {
        let cells = self.cells(&[], &shown(columns, self.mine.map(|mine| mine[0]), LINES));
        line(names[0], &cells)
    }

    fn tables(&self, outer: &[usize], inner: &[usize], names: &[&str]) -> Vec<String> {
        let mine = self.mine.map(|mine| number_of(outer, &mine[..outer.len()]));
        let mut lines = Vec::new();
        for number in shown(outer.iter().product(), mine, TABLES) {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            let Some(number) = number else {
                lines.push(GAP.to_owned());
                continue;
            };
            let at = coordinate_of(outer, number);
            let heading = |(name, index): (&&str, &usize)| format!("{name} {index}");
            let heading: Vec<String> = names.iter().zip(&at).map(heading).collect();
            lines.extend((!at.is_empty()).then(|| heading.join(", ")));
            lines.extend(self.table(&at, inner, &names[outer.len()..]));
        }
        lines
    }

    /// The ranks at this coordinate of the dimensions before the last two.
    fn table(&self, at: &[usize], inner: &[usize], names: &[&str]) -> Vec<String> {
        let mine = |dim: usize| self.mine.map(|mine| mine[at.len() + dim]);
        let (rows, columns) = (shown(inner[0], mine(0), LINES), shown(inner[1], mine(1), LINES));
        let label = |row: &Option<usize>| row.map_or(GAP.to_owned(), |row| row.to_string());
        let longest = rows.iter().map(|row| label(row).chars().count()).max();
        let left = names[0].chars().count().max(longest.unwrap_or(0));
        let heads: Vec<String> =
            columns.iter().map(|column| self.cell(&label(column), false)).collect();
        let head = line(&format!("{:>left$}", names[0]), &heads);
        let across = head.chars().count().max(left + 3 + names[1].chars().count());
        let rule = |len: usize| "─".repeat(len);
        let mut lines = vec![
            format!("{:left$} │ {}", "", names[1]),
            head,
            format!("{}┼{}", rule(left + 1), rule(across - left - 1)),
        ];
        for row in rows {
            let cells = match row {
                Some(row) => self.cells(&[at, &[row]].concat(), &columns),
                None => columns.iter().map(|_| self.cell(GAP, false)).collect(),
            };
            lines.push(line(&format!("{:>left$}", label(&row)), &cells));
        }
        lines
    }

    /// The ranks of these columns in the row at this coordinate.
    fn cells(&self, row: &[usize], columns: &[Option<usize>]) -> Vec<String> {
        let cell = |column: &Option<usize>| {
            let at = column.map(|column| [row, &[column]].concat());
            match at.as_ref().and_then(|at| self.mesh.rank_at(at).ok()) {
                Some(rank) => self.cell(&rank.to_string(), at.as_deref() == self.mine),
                None => self.cell(GAP, false),
            }
        };
        columns.iter().map(cell).collect()
    }

    fn cell(&self, what: &str, is_mine: bool) -> String {
        let what = if is_mine { format!("[{what}]") } else { format!("{what} ") };
        format!("{what:>width$}", width = self.width + 2)
    }
}

fn line(label: &str, cells: &[String]) -> String {
    format!("{label} │ {}", cells.join(" ")).trim_end().to_owned()
}

/// Which of so many are shown, and where some are left out. If there are too many: the first and the last,
/// half as many as there may be of each, and mine.
fn shown(len: usize, mine: Option<usize>, most: usize) -> Vec<Option<usize>> {
    let few = most / 2;
    let is_shown =
        |&index: &usize| len <= most || index < few || index >= len - few || mine == Some(index);
    let mut shown: Vec<Option<usize>> = Vec::new();
    let mut next = 0;
    for index in (0..len).filter(is_shown) {
        if index > next {
            shown.push(None);
        }
        shown.push(Some(index));
        next = index + 1;
    }
    shown
}

/// Which of the coordinates of a shape this is.
fn number_of(shape: &[usize], coordinate: &[usize]) -> usize {
    shape.iter().zip(coordinate).fold(0, |number, (size, index)| number * size + index)
}

/// The coordinate with this number.
fn coordinate_of(shape: &[usize], mut number: usize) -> Vec<usize> {
    let mut coordinate = vec![0; shape.len()];
    for (index, size) in coordinate.iter_mut().zip(shape).rev() {
        *index = number % size;
        number /= size;
    }
    coordinate
}

const GAP: &str = "…";
/// So many rows and columns are shown.
const LINES: usize = 16;
/// So many tables are shown.
const TABLES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::Group;

    fn mesh(rank: u32, shape: &[usize]) -> Mesh {
        let world: usize = shape.iter().product();
        let names = &["first", "second", "third", "fourth"][..shape.len()];
        Mesh::new(&Group::fake(rank, world as u32).unwrap(), shape, names).unwrap()
    }

    #[test]
    fn ranks_of_several_digits_stand_below_each_other() {
        let table = "
      │ second
first │   0    1    2    3    4    5
──────┼──────────────────────────────
    0 │   0    1    2    3    4    5
    1 │   6    7    8    9  [10]  11";
        assert_eq!(format!("\n{}", mesh(10, &[2, 6])), table);
        assert_eq!(mesh(2, &[3]).to_string(), "first │  0   1  [2]");
    }

    #[test]
    fn a_long_name_has_room_and_outside_no_rank_is_marked() {
        let group = Group::fake(0, 3).unwrap();
        let mesh = Mesh::from_ranks(&group, &[2, 1], &[2, 1], &["a", "sequence"]).unwrap();
        let table = "  │ sequence\na │  0\n──┼──────────\n0 │  2\n1 │  1";
        assert_eq!(mesh.to_string(), table);
    }

    #[test]
    fn tables_are_headed_by_the_outer_coordinates() {
        let drawn = mesh(11, &[2, 2, 2, 2]).to_string();
        let headings: Vec<&str> = drawn.lines().filter(|line| line.contains(", ")).collect();
        let expected = ["0, second 0", "0, second 1", "1, second 0", "1, second 1"];
        assert_eq!(headings, expected.map(|rest| format!("first {rest}")));
        assert_eq!(drawn.lines().filter(|line| line.contains("[11]")).count(), 1);
    }

    #[test]
    fn of_many_the_first_the_last_and_this_one_are_shown() {
        assert_eq!(shown(3, None, 4), [Some(0), Some(1), Some(2)]);
        assert_eq!(shown(9, None, 4), [Some(0), Some(1), None, Some(7), Some(8)]);
        let mine = [Some(0), Some(1), None, Some(4), None, Some(7), Some(8)];
        assert_eq!(shown(9, Some(4), 4), mine);
        let nearly_all = [Some(0), Some(1), Some(2), None, Some(4), Some(5)];
        assert_eq!(shown(6, Some(2), 4), nearly_all);
        for shape in [&[100_000][..], &[1000, 100], &[40, 50, 50], &[20, 20, 20, 20]] {
            let drawn = mesh(4321, shape).to_string();
            assert!(drawn.len() < 40_000, "{} bytes of {shape:?}", drawn.len());
            assert_eq!(drawn.matches("[4321]").count(), 1, "{drawn}");
            assert!(drawn.contains('…') && !drawn.contains(" \n"), "{drawn}");
        }
    }
}
