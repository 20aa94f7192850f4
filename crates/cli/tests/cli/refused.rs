//! Commands that are refused: each ends in one message that says what is wrong, before anything on the machine is changed.
//! They stand in `tests/refused.txt`.

use crate::support::prelude::*;

#[test]
fn what_makes_no_sense_is_refused_with_one_message_that_says_why() {
    let lines = include_str!("../refused.txt").lines();
    let mut wrong = Vec::new();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (line, status) = match line.strip_suffix(" [1]") {
            Some(line) => (line, 1),
            None => (line, 2),
        };
        let mut parts = line.split(" => ");
        let command = parts.next().unwrap_or_default();
        let script = format!("strata() {{ exec '{}' \"$@\"; }}; {command}", binary());
        let said = Command::new("sh")
            .args(["-c", &script])
            .current_dir(checkout().join("tests/recordings"))
            .output()
            .expect("a shell");
        let stderr = String::from_utf8_lossy(&said.stderr);
        let is_error = |line: &&str| line.contains("error: ") && !line.starts_with(' ');
        let is_right = said.status.code() == Some(status)
            && said.stdout.is_empty()
            && stderr.lines().filter(is_error).count() == 1
            && !stderr.contains("panicked")
            && parts.all(|why| stderr.contains(why));
        if !is_right {
            wrong.push(format!("{line}\n  {}: {stderr}", said.status));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
