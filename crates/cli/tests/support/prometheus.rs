//! Metrics as Prometheus gets them: scraped, read and checked by its own checker.
//!
//! **Owns** the scrape and the checker. **Does not own** which metrics there should be.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use super::programs::{checkout, target_dir};

/// The metrics.
pub(crate) fn scrape(address: &str) -> String {
    scrape_if_open(address).expect("the port answers")
}

/// `None` once the run is over.
pub(crate) fn scrape_if_open(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    Some(body.to_owned())
}

/// The sum of the samples of one metric; `None` if it is not there.
pub(crate) fn value(text: &str, name: &str) -> Option<f64> {
    let lines = text
        .lines()
        .filter(|line| line.split('{').next() == Some(name));
    let values: Vec<f64> = lines
        .filter_map(|line| line.rsplit_once(' ')?.1.parse().ok())
        .collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

/// Prometheus' own checker, unpacked below the target directory.
pub(crate) fn promtool() -> Result<&'static Path, &'static str> {
    static PROMTOOL: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
        let output = Command::new(checkout().join("scripts/servers.sh"))
            .arg("prometheus")
            .output()
            .map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(target_dir().join("servers/bin/promtool")),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    });
    PROMTOOL.as_deref().map_err(String::as_str)
}

/// Fails unless the checker finds nothing to say.
#[track_caller]
pub(crate) fn check(promtool: &Path, text: &str) {
    let mut child = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(text.as_bytes()).expect("promtool reads");
    drop(stdin);
    let output = child.wait_with_output().expect("promtool ends");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.trim().is_empty(),
        "{said}\n{text}"
    );
}
