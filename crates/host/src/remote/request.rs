//! What can be asked of a running Strata: one line, one request.
//!
//! **Owns** the grammar of a request, and the shape of every answer. **Does not own** what a request
//! does (`control`) nor how lines travel (`server`).
//!
//! **Invariants** Q1: any bytes are either a request or an error that says what is wrong with them.

use serde::{Deserialize, Serialize};

/// An error quotes at most so much of what it is about.
const QUOTED_CHARS_MAX: usize = 200;

/// The two texts of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// As `/sys/kernel/debug/lru_gen`.
    #[default]
    Plain,
    /// As `/sys/kernel/debug/lru_gen_full`.
    Full,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// How the run stands.
    Status {},
    /// The groups under a budget.
    Groups {},
    /// The generations, as JSON.
    Generations {},
    /// The generations in the kernel's text.
    LruGen {
        /// The text that is asked for.
        #[serde(default)]
        form: Form,
    },
    /// The kernel's commands, as written to `lru_gen`.
    Command {
        /// `+ memcg node seq [...]` or `- memcg node seq [...]`; several split by `,`, `;` or a line break.
        text: String,
    },
    /// From now on the program may use so much.
    SetBudget {
        /// Bytes.
        bytes: u64,
    },
    /// Takes no page until resumed.
    Pause {},
    /// Ends a pause.
    Resume {},
    /// Takes so much now, the oldest first, whatever usage is.
    Evict {
        /// Bytes.
        bytes: u64,
    },
    /// Decides without taking anything, or takes again.
    DryRun {
        /// `None`: the other way round than it is.
        #[serde(default)]
        on: Option<bool>,
    },
}

/// Why a line is no request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// Nothing in it.
    #[error("the line is empty; send {{\"request\":\"status\"}} for example")]
    Empty,
    /// Bytes that are no text.
    #[error("the line is not UTF-8")]
    NotText,
    /// Not JSON, or not a request that is known.
    #[error("not a request: {0}; see docs/guide/control-socket.md")]
    NotARequest(String),
}

impl Request {
    /// Reads a line without its end. A line that begins with `+` or `-` is the kernel's command, so
    /// that what was written to `lru_gen` can be written here as it is.
    ///
    /// ```
    /// use strata_host::remote::Request;
    /// assert_eq!(Request::parse(b"{\"request\":\"pause\"}"), Ok(Request::Pause {}));
    /// let text = "+ 1 0 3".to_owned();
    /// assert_eq!(Request::parse(b"+ 1 0 3"), Ok(Request::Command { text }));
    /// assert!(Request::parse(b"{\"request\":\"dance\"}").is_err());
    /// ```
    pub fn parse(line: &[u8]) -> Result<Request, RequestError> {
        let text = std::str::from_utf8(line).map_err(|_| RequestError::NotText)?;
        let text = text.trim();
        if text.is_empty() {
            return Err(RequestError::Empty);
        }
        if text.starts_with(['+', '-']) {
            return Ok(Request::Command {
                text: text.to_owned(),
            });
        }
        serde_json::from_str(text).map_err(|error| {
            let why: String = error.to_string().chars().take(QUOTED_CHARS_MAX).collect();
            RequestError::NotARequest(why)
        })
    }

    /// The line that asks this, with its end.
    pub fn line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("a request is plain data");
        line.push('\n');
        line
    }
}

/// The line of an answer: the fields of `answer` and `"ok": true`.
pub(crate) fn accept(answer: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Accepted<'a, T> {
        ok: bool,
        #[serde(flatten)]
        answer: &'a T,
    }
    match serde_json::to_string(&Accepted { ok: true, answer }) {
        Ok(line) => line,
        // A share of nothing is no number in JSON; better said than guessed.
        Err(error) => refuse(&format!("the answer can't be written: {error}"), None),
    }
}

/// The line of a refusal: `"ok": false`, why, and the kernel's name of the error where it has one.
pub(crate) fn refuse(why: &str, errno: Option<&'static str>) -> String {
    serde_json::json!({ "ok": false, "error": why, "errno": errno }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request() -> impl Strategy<Value = Request> {
        prop_oneof![
            Just(Request::Status {}),
            Just(Request::Groups {}),
            Just(Request::Generations {}),
            Just(Request::LruGen { form: Form::Full }),
            "\\PC*".prop_map(|text| Request::Command { text }),
            any::<u64>().prop_map(|bytes| Request::SetBudget { bytes }),
            Just(Request::Pause {}),
            Just(Request::Resume {}),
            any::<u64>().prop_map(|bytes| Request::Evict { bytes }),
            any::<Option<bool>>().prop_map(|on| Request::DryRun { on }),
        ]
    }

    #[test]
    fn what_is_no_request_is_refused_with_its_reason() {
        for (line, why) in [
            (&b""[..], "empty"),
            (b" \t", "empty"),
            (b"\xff\xfe", "UTF-8"),
            (b"status", "not a request"),
            (b"{}", "missing field `request`"),
            (b"[]", "not a request"),
            (b"null", "not a request"),
            (b"{\"request\":\"dance\"}", "unknown variant `dance`"),
            (b"{\"request\":\"status\",\"loudly\":true}", "unknown field"),
            (b"{\"request\":\"set_budget\"}", "missing field `bytes`"),
            (
                b"{\"request\":\"set_budget\",\"bytes\":-1}",
                "invalid value",
            ),
            (b"{\"request\":\"set_budget\",\"bytes\":1e30}", "invalid"),
            (b"{\"request\":\"evict\",\"bytes\":\"1G\"}", "invalid type"),
            (
                b"{\"request\":\"pause\"}{\"request\":\"pause\"}",
                "trailing",
            ),
            (
                b"{\"request\":\"lru_gen\",\"form\":\"long\"}",
                "unknown variant",
            ),
        ] {
            let error = Request::parse(line).expect_err("no request").to_string();
            assert!(error.contains(why), "{line:?}: {error}");
        }
    }

    #[test]
    fn what_may_be_left_out_has_its_default() {
        let parse = |text: &str| Request::parse(text.as_bytes());
        let plain = Request::LruGen { form: Form::Plain };
        assert_eq!(parse("{\"request\":\"lru_gen\"}"), Ok(plain));
        let toggle = Request::DryRun { on: None };
        assert_eq!(parse("{\"request\":\"dry_run\"}"), Ok(toggle));
    }

    #[test]
    fn an_error_quotes_little_of_a_long_line() {
        let line = format!("{{\"request\":\"{}\"}}", "\u{e9}".repeat(20_000));
        let error = Request::parse(line.as_bytes()).expect_err("unknown");
        assert!(error.to_string().len() < 600, "{error}");
    }

    #[test]
    fn deep_nesting_is_an_error_and_no_overflow() {
        let deep = format!("{{\"request\":{}", "[".repeat(60_000));
        assert!(Request::parse(deep.as_bytes()).is_err());
    }

    #[test]
    fn an_answer_says_whether_it_went_well() {
        #[derive(Serialize)]
        struct Answer {
            bytes: u64,
        }
        assert_eq!(accept(&Answer { bytes: 1 }), r#"{"ok":true,"bytes":1}"#);
        let refused: serde_json::Value =
            serde_json::from_str(&refuse("no", Some("EINVAL"))).unwrap();
        assert_eq!(refused["ok"], false);
        assert_eq!(refused["errno"], "EINVAL");
    }

    proptest! {
        #[test]
        fn every_request_survives_its_line(request in request()) {
            let line = request.line();
            prop_assert_eq!(line.matches('\n').count(), 1);
            prop_assert_eq!(Request::parse(line.as_bytes()), Ok(request));
        }

        #[test]
        fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Err(error) = Request::parse(&bytes) {
                prop_assert!(!error.to_string().contains('\n') || bytes.contains(&b'\n'));
            }
        }

        #[test]
        fn a_broken_request_is_refused_or_another_request(
            request in request(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        ) {
            let mut line = request.line().into_bytes();
            let at = at.index(line.len());
            line[at] = byte;
            let _ = Request::parse(&line);
            line.truncate(at);
            let _ = Request::parse(&line);
        }
    }
}
