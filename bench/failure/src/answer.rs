//! What a rank says back. All times are of the clock that the processes of a machine share.

use std::str::FromStr;

/// A line from a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It has met the others.
    Here { rank: u32, process: i32, version: String },
    /// It begins to do what it was told.
    Begins { at: u64 },
    /// Its other thread ends the group.
    Aborts { at: u64 },
    /// It has done what it was told.
    Did { at: u64, outcome: Outcome },
}

/// What came of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// No error. The first element of the result, if there is one.
    Good(String),
    /// An error: of which sort the library says it is, and what it says.
    Failed { class: String, text: String },
}

impl FromStr for Answer {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let strange = || format!("a rank said {line:?}, which is no answer");
        let mut words = line.splitn(4, ' ');
        let mut next = || words.next().ok_or_else(strange);
        let verb = next()?;
        match verb {
            "here" => Ok(Self::Here {
                rank: next()?.parse().map_err(|_| strange())?,
                process: next()?.parse().map_err(|_| strange())?,
                version: next()?.to_owned(),
            }),
            "begins" => Ok(Self::Begins { at: next()?.parse().map_err(|_| strange())? }),
            "aborts" => Ok(Self::Aborts { at: next()?.parse().map_err(|_| strange())? }),
            "did" => {
                let at = next()?.parse().map_err(|_| strange())?;
                let outcome = match (next()?, next().unwrap_or_default()) {
                    ("good", value) => Outcome::Good(value.to_owned()),
                    ("failed", rest) => {
                        let (class, text) = rest.split_once(' ').unwrap_or((rest, ""));
                        Outcome::Failed { class: class.to_owned(), text: text.to_owned() }
                    }
                    _ => return Err(strange()),
                };
                Ok(Self::Did { at, outcome })
            }
            _ => Err(strange()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_answer_is_understood() {
        let did = |outcome| Ok(Answer::Did { at: 12, outcome });
        for (line, meaning) in [
            (
                "here 3 4711 Open MPI 5",
                Ok(Answer::Here { rank: 3, process: 4711, version: "Open MPI 5".to_owned() }),
            ),
            ("begins 12", Ok(Answer::Begins { at: 12 })),
            ("aborts 12", Ok(Answer::Aborts { at: 12 })),
            ("did 12 good 4", did(Outcome::Good("4".to_owned()))),
            ("did 12 good", did(Outcome::Good(String::new()))),
            (
                "did 12 failed RuntimeError it is over",
                did(Outcome::Failed {
                    class: "RuntimeError".to_owned(),
                    text: "it is over".to_owned(),
                }),
            ),
        ] {
            assert_eq!(line.parse(), meaning);
        }
    }

    proptest! {
        #[test]
        fn any_line_is_an_answer_or_an_error(line in "(here|begins|did|good|failed|[0-9-]{1,25}| ){0,8}") {
            let _ = line.parse::<Answer>();
        }
    }
}
