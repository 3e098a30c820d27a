//! What is asked over HTTP, and what is not understood.

/// What somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The metrics.
    Page,
    /// What would be said before them.
    Head,
}

/// Why somebody is sent away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is no request.
    Nonsense,
    /// There is nothing else than metrics.
    NotFound,
    /// They can only be read.
    ReadOnly,
    /// It says too much.
    TooLong,
    /// It takes too long.
    TooSlow,
    /// Others are being served.
    Busy,
}

/// What a request asks for of which these are the first bytes; `None` if that cannot be said before more
/// of it comes.
pub(super) fn parse(bytes: &[u8]) -> Option<Result<Asked, Refusal>> {
    if bytes.first().is_some_and(|first| !first.is_ascii_uppercase()) {
        return Some(Err(Refusal::Nonsense));
    }
    let is_whole = bytes.windows(4).any(|it| it == b"\r\n\r\n");
    match is_whole {
        true => Some(parse_line(bytes)),
        false if bytes.len() >= MOST => Some(Err(Refusal::TooLong)),
        false => None,
    }
}

fn parse_line(bytes: &[u8]) -> Result<Asked, Refusal> {
    let line = bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let line = str::from_utf8(line).map_err(|_| Refusal::Nonsense)?;
    let parts: Vec<&str> = line.split(' ').collect();
    let [method, target, "HTTP/1.0" | "HTTP/1.1"] = parts[..] else {
        return Err(Refusal::Nonsense);
    };
    let asked = match method {
        "GET" => Asked::Page,
        "HEAD" => Asked::Head,
        _ => return Err(Refusal::ReadOnly),
    };
    match target.split('?').next() {
        Some("/metrics") => Ok(asked),
        _ => Err(Refusal::NotFound),
    }
}

/// The answer to a request, with what there is to say for those who ask for that.
pub(super) fn answer(asked: Result<Asked, Refusal>, page: impl FnOnce() -> String) -> String {
    let (status, text, is_shown) = match asked {
        Ok(Asked::Page) => ("200 OK", page(), true),
        Ok(Asked::Head) => ("200 OK", page(), false),
        Err(refusal) => {
            let (status, why) = refusal.in_words();
            (status, format!("{why}\n"), true)
        }
    };
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    if is_shown { head + &text } else { head }
}

impl Refusal {
    fn in_words(self) -> (&'static str, &'static str) {
        match self {
            Self::Nonsense => ("400 Bad Request", "that is no request over HTTP"),
            Self::NotFound => ("404 Not Found", "there is only /metrics"),
            Self::ReadOnly => ("405 Method Not Allowed", "metrics can only be read"),
            Self::TooSlow => ("408 Request Timeout", "the request did not come in time"),
            Self::TooLong => ("431 Request Header Fields Too Large", "the request is too long"),
            Self::Busy => ("503 Service Unavailable", "others are being served"),
        }
    }
}

/// How many bytes a request may have.
pub(super) const MOST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_can_be_asked_for() {
        let full = "GET /metrics HTTP/1.1\r\nHost: here\r\nAccept: */*\r\n\r\n";
        assert_eq!(parse(full.as_bytes()), Some(Ok(Asked::Page)));
        for end in 0..full.len() {
            assert_eq!(parse(&full.as_bytes()[..end]), None, "{:?}", &full[..end]);
        }
        assert_eq!(parse(b"HEAD /metrics?all HTTP/1.0\r\n\r\n"), Some(Ok(Asked::Head)));
    }

    #[test]
    fn whatever_else_comes_is_refused() {
        for (text, refusal) in [
            ("GET / HTTP/1.1\r\n\r\n", Refusal::NotFound),
            ("GET /metrics/../secret HTTP/1.1\r\n\r\n", Refusal::NotFound),
            ("POST /metrics HTTP/1.1\r\n\r\n", Refusal::ReadOnly),
            ("GET /metrics\r\n\r\n", Refusal::Nonsense),
            ("GET  /metrics HTTP/1.1\r\n\r\n", Refusal::Nonsense),
            ("GET /metrics HTTP/2\r\n\r\n", Refusal::Nonsense),
            ("\u{16}\u{3}\u{1}", Refusal::Nonsense),
            ("get /metrics", Refusal::Nonsense),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(Err(refusal)), "{text:?}");
        }
        assert_eq!(parse(&[b'G'; MOST]), Some(Err(Refusal::TooLong)));
        assert_eq!(parse(b"GET \xff HTTP/1.1\r\n\r\n"), Some(Err(Refusal::Nonsense)));
    }

    #[test]
    fn an_answer_says_how_long_it_is() {
        let page = || "a 1\n".to_owned();
        let told = answer(Ok(Asked::Page), page);
        assert!(
            told.starts_with("HTTP/1.1 200 OK\r\n") && told.ends_with("\r\n\r\na 1\n"),
            "{told}"
        );
        let head = answer(Ok(Asked::Head), page);
        assert!(head.contains("Content-Length: 4\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        let refused = answer(Err(Refusal::Busy), || unreachable!("nobody asked"));
        assert!(refused.starts_with("HTTP/1.1 503 ") && refused.ends_with("served\n"), "{refused}");
    }
}
