//! Whether ranks may read each other's memory.

use crate::doctor::facts::Sharing;
use crate::doctor::finding::{Area, Finding};

/// What is read straight from another rank's memory is copied once instead of twice.
pub(crate) fn sharing(sharing: Sharing) -> Finding {
    let rule = match sharing.scope {
        Some(scope @ 1..) => format!(" (Yama's ptrace_scope is {scope})"),
        _ => String::new(),
    };
    match sharing.allowed {
        Some(true) => {
            Finding::good(Area::Memory, "ranks may read each other's memory (process_vm_readv)")
        }
        Some(false) => {
            let what = format!("ranks may not read each other's memory{rule}");
            Finding::note(Area::Memory, what, TWICE)
        }
        None => {
            let what = format!("not known whether ranks may read each other's memory{rule}");
            Finding::note(Area::Memory, what, TWICE)
        }
    }
}

const TWICE: &str = "large parts are then copied twice in all_to_all, and in all_gather between two \
                     ranks; the rule protects your other processes too, so leave it if in doubt";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn what_forbids_it_is_named_as_far_as_it_is_known() {
        let judge = |allowed, scope| sharing(Sharing { allowed, scope });
        assert_eq!(judge(Some(true), Some(1)).verdict, Verdict::Good, "root may");
        let forbidden = judge(Some(false), Some(1));
        assert_eq!(forbidden.verdict, Verdict::Note);
        assert!(forbidden.what.ends_with("(Yama's ptrace_scope is 1)"), "{}", forbidden.what);
        let filtered = judge(Some(false), Some(0));
        assert!(filtered.what.ends_with("memory"), "{}", filtered.what);
        assert!(judge(None, None).what.starts_with("not known"));
    }
}
