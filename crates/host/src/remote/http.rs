//! As much HTTP as a scrape needs: one request, one answer, the connection closed.
//!
//! **Owns** telling a request for the metrics from anything else, and the head of the answer. **Does not
//! own** the connection or the metrics.

/// A request's head longer than this is refused.
pub(super) const HEAD_BYTES_MAX: usize = 8 << 10;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The metrics.
    Metrics,
    /// Only the head of that answer.
    MetricsHead,
    /// Something there is not; the status says why.
    Nothing(Status),
    /// Not said yet.
    More,
}

strata_lru::named! {
    /// How a request failed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Status {
        /// Not HTTP.
        BadRequest = "400 Bad Request",
        /// Another path.
        NotFound = "404 Not Found",
        /// Another method.
        NotAllowed = "405 Method Not Allowed",
        /// A head without an end.
        TooLarge = "431 Request Header Fields Too Large",
        /// Too many requests are on their way.
        Busy = "503 Service Unavailable",
    }
}

/// Reads what has come so far.
pub(super) fn wanted(bytes: &[u8]) -> Wanted {
    let has_end =
        bytes.windows(4).any(|of| of == b"\r\n\r\n") || bytes.windows(2).any(|of| of == b"\n\n");
    if !has_end {
        return match bytes.len() > HEAD_BYTES_MAX {
            true => Wanted::Nothing(Status::TooLarge),
            false => Wanted::More,
        };
    }
    let first = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let Ok(line) = std::str::from_utf8(first) else {
        return Wanted::Nothing(Status::BadRequest);
    };
    let mut words = line.trim_end().split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let (Some(method), Some(target), Some(version), None) = (method, target, version, words.next())
    else {
        return Wanted::Nothing(Status::BadRequest);
    };
    if !version.starts_with("HTTP/1.") {
        return Wanted::Nothing(Status::BadRequest);
    }
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET", "/metrics") => Wanted::Metrics,
        ("HEAD", "/metrics") => Wanted::MetricsHead,
        ("GET" | "HEAD", _) => Wanted::Nothing(Status::NotFound),
        _ => Wanted::Nothing(Status::NotAllowed),
    }
}

/// The answer with the metrics, or only its head.
pub(super) fn metrics(text: &str, wanted: Wanted) -> Vec<u8> {
    let body = match wanted {
        Wanted::MetricsHead => "",
        _ => text,
    };
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        text.len()
    )
    .into_bytes()
}

/// The answer to what can't be had.
pub(super) fn refusal(status: Status) -> Vec<u8> {
    let body = format!("{}; the metrics are at /metrics\n", status.name());
    format!(
        "HTTP/1.1 {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        status.name(),
        body.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_metrics_are_there() {
        for (request, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", Wanted::Metrics),
            ("GET /metrics?a=b HTTP/1.0\r\n\r\n", Wanted::Metrics),
            ("GET /metrics HTTP/1.1\n\n", Wanted::Metrics),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", Wanted::MetricsHead),
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n", Wanted::More),
            ("", Wanted::More),
            ("GET / HTTP/1.1\r\n\r\n", Wanted::Nothing(Status::NotFound)),
            (
                "GET /metrics/../etc HTTP/1.1\r\n\r\n",
                Wanted::Nothing(Status::NotFound),
            ),
            (
                "POST /metrics HTTP/1.1\r\n\r\n",
                Wanted::Nothing(Status::NotAllowed),
            ),
            ("GET /metrics\r\n\r\n", Wanted::Nothing(Status::BadRequest)),
            (
                "GET /metrics HTTP/2\r\n\r\n",
                Wanted::Nothing(Status::BadRequest),
            ),
            (
                "GET  /metrics HTTP/1.1\r\n\r\n",
                Wanted::Nothing(Status::BadRequest),
            ),
            ("\r\n\r\n", Wanted::Nothing(Status::BadRequest)),
        ] {
            assert_eq!(wanted(request.as_bytes()), expected, "{request:?}");
        }
    }

    #[test]
    fn a_head_without_end_is_given_up() {
        let head = format!("GET /metrics HTTP/1.1\r\nX: {}", "a".repeat(HEAD_BYTES_MAX));
        assert_eq!(wanted(head.as_bytes()), Wanted::Nothing(Status::TooLarge));
    }

    #[test]
    fn an_answer_says_how_long_it_is() {
        let answer = String::from_utf8(metrics("strata_x 1\n", Wanted::Metrics)).unwrap();
        assert!(
            answer.contains("Content-Length: 11\r\n") && answer.ends_with("\r\n\r\nstrata_x 1\n")
        );
        let head = String::from_utf8(metrics("strata_x 1\n", Wanted::MetricsHead)).unwrap();
        assert!(head.contains("Content-Length: 11\r\n") && head.ends_with("\r\n\r\n"));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = wanted(&bytes);
        }
    }
}
