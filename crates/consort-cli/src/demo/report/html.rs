//! Text that is safe inside a page.

use std::fmt;

/// Shows something with every letter that means something to a browser written in another way, so that it
/// can stand between tags and between quotation marks.
pub(crate) struct Escaped<T>(pub(crate) T);

impl<T: fmt::Display> fmt::Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        for letter in self.0.to_string().chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // Browsers complain about most of these, and terminals obey them.
                control if control.is_control() && control != '\n' => f.write_char('\u{fffd}')?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_shown_can_become_a_tag_or_leave_its_quotes() {
        let text = Escaped("<script>alert(\"1\" & '2')</script>\n\x1b[31m").to_string();
        assert_eq!(
            text,
            "&lt;script&gt;alert(&quot;1&quot; &amp; &#39;2&#39;)&lt;/script&gt;\n\u{fffd}[31m"
        );
        assert_eq!(Escaped("2 × 3 = 6 µs").to_string(), "2 × 3 = 6 µs");
    }
}
