//! The reason a program left behind for its failure.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The reason in an error file as PyTorch writes it: `{"message": {"message": "…"}}`, or the text
/// itself as `message`. None if there is no such file, or something else in it.
pub(crate) fn reason_in(error_file: &Path) -> Option<String> {
    let mut text = Vec::new();
    File::open(error_file).ok()?.take(ERROR_FILE_BYTES).read_to_end(&mut text).ok()?;
    let content: serde_json::Value = serde_json::from_slice(&text).ok()?;
    let message = content.get("message")?;
    let text = message.as_str().or_else(|| message.get("message")?.as_str())?;
    Some(text.to_owned())
}

const ERROR_FILE_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn both_forms_of_error_file_are_read_and_others_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("error.json");
        assert_eq!(reason_in(&file), None);
        for (content, reason) in [
            (
                r#"{"message":{"message":"bad shape","extraInfo":{"timestamp":"1"}}}"#,
                Some("bad shape"),
            ),
            (r#"{"message":"bad shape"}"#, Some("bad shape")),
            (r#"{"message":7}"#, None),
            ("[1, 2", None),
        ] {
            fs::write(&file, content).unwrap();
            assert_eq!(reason_in(&file).as_deref(), reason, "{content}");
        }
    }
}
