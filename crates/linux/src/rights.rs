//! What to do where a right is missing: the advice at the end of an error.
//!
//! **Owns** the advice: a user is told to be root, and root is told what root lacks. **Does not own** the errors.

/// What a user types.
const SUDO: &str = "run as root: sudo strata ...";

/// Whether Strata runs as root. Root may still lack rights: in a container, or below a security module.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What to do, where root usually has the right called `what`.
pub fn advice(what: &str) -> String {
    advice_to(is_root(), "run as root", what)
}

/// What to do, where root usually has the right called `what`, with the command to type.
pub fn command_advice(what: &str) -> String {
    advice_to(is_root(), SUDO, what)
}

fn advice_to(is_root: bool, be_root: &str, what: &str) -> String {
    match is_root {
        false => be_root.to_owned(),
        true => format!(
            "root lacks {what} here: allow it where a container or a security module withholds it"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_never_told_to_be_root() {
        let advice = advice_to(true, SUDO, "CAP_BPF");
        assert!(!advice.contains("run as root"), "{advice}");
        assert!(advice.contains("CAP_BPF"), "{advice}");
        assert_eq!(advice_to(false, SUDO, "CAP_BPF"), SUDO);
    }
}
