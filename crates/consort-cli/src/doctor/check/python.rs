//! Python and PyTorch: good to know, never a fault.

use crate::doctor::facts::Python;
use crate::doctor::finding::{Area, Finding};
use crate::doctor::words::time;

/// Which Python a Python program would get.
pub(crate) fn found(python: &Python) -> Finding {
    match python {
        Python::Absent => {
            Finding::note(Area::Python, "no python3 on the path", "only Python programs need it")
        }
        Python::Silent { limit } => {
            let what = format!("python3 did not tell its version within {}", time(*limit));
            Finding::note(Area::Python, what, "only Python programs need it")
        }
        Python::Found { version, torch: Some(torch) } => {
            Finding::good(Area::Python, format!("Python {version} with PyTorch {torch}"))
        }
        Python::Found { version, torch: None } => Finding::note(
            Area::Python,
            format!("Python {version} without PyTorch"),
            "for PyTorch programs: pip install torch",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn python_is_never_a_fault() {
        let version = "3.11.2".to_owned();
        let cases = [
            (Python::Absent, "no python3"),
            (Python::Silent { limit: Duration::from_secs(5) }, "within 5.0 s"),
            (Python::Found { version: version.clone(), torch: None }, "without PyTorch"),
            (Python::Found { version, torch: Some("2.8.0".into()) }, "with PyTorch 2.8.0"),
        ];
        for (python, text) in cases {
            let finding = found(&python);
            let has_all = text.starts_with("with ");
            assert_eq!(finding.verdict, if has_all { Verdict::Good } else { Verdict::Note });
            assert!(finding.what.contains(text), "{}", finding.what);
        }
    }
}
