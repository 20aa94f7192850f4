//! A program that reads a file past page cache into pages that are mapped.
//!
//! **Owns** [`Direct`], which drives `tests/programs/direct.c`. **Does not own** any expectation.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use super::programs::program;

/// Reads a file into mapped pages of another one, past page cache.
pub(crate) struct Direct {
    pub(crate) child: Child,
    said: BufReader<ChildStdout>,
}

impl Direct {
    /// Starts it with a file to read and a file to read into.
    pub(crate) fn start(source: &Path, target: &Path) -> Direct {
        let mut direct = Command::new(program("direct"));
        let direct = direct.arg(source).arg(target);
        let direct = direct.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = direct.spawn().expect("direct starts");
        let said = BufReader::new(child.stdout.take().expect("piped"));
        Direct { child, said }
    }

    /// The next line that it prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("it says something");
        line.trim_end().to_owned()
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
