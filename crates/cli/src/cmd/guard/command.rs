//! A command that a guard starts and looks after alone.
//!
//! **Owns** the cgroup that it runs in, from before it starts until after it has ended. **Does not own** the start (`attend`),
//! nor what is taken (`strata_host::managed`).
//!
//! **Invariants** I1: the group is recorded before it is made, so whatever Strata starts next removes it if this one was killed
//! and the command has ended.

use std::ffi::OsString;
use std::os::fd::OwnedFd;

use anyhow::Context as _;
use strata_host::keeper::{Session, fresh_id};
use strata_host::managed::{Managed, Rules, Whom};
use strata_host::observe::Who;
use strata_linux::cgroup::BudgetGroup;

use crate::print;

/// See the module.
#[derive(Debug)]
pub(super) struct Command {
    session: Session,
    group: Option<BudgetGroup>,
}

impl Command {
    /// Makes the group and has the rules hold for nobody else. Returns who is to be watched, too.
    pub(super) fn prepare(
        words: &[OsString],
        managed: &mut Managed,
        mut rules: Rules,
    ) -> anyhow::Result<(Command, Who)> {
        let (program, args) = words.split_first().context("no command")?;
        let mut command = Command {
            session: Session::create(&fresh_id())?,
            group: None,
        };
        let (cgroup_procs, whom) = match command.make_group() {
            Ok(made) => made,
            Err(error) => {
                command.end();
                return Err(error.context("no group can be made for the command"));
            }
        };
        for rule in &mut rules.rules {
            rule.whom = whom.clone();
        }
        managed.set_rules(rules, None);
        let who = Who::ServedCommand {
            subject: Managed::subject(),
            cgroup_procs,
            program: program.clone(),
            args: args.to_vec(),
        };
        Ok((command, who))
    }

    fn make_group(&mut self) -> anyhow::Result<(OwnedFd, Whom)> {
        let journal = self.session.journal();
        let group = BudgetGroup::create(self.session.id(), &journal)?;
        let group = self.group.insert(group);
        Ok((group.join_file()?, Whom::cgroup_at(&group.name())?))
    }

    /// Removes the group, in which nobody is any more.
    pub(super) fn end(self) {
        if let Some(Err(error)) = self.group.map(|mut group| group.remove()) {
            print::warning(&error);
        }
        for error in self.session.finish(None) {
            tracing::debug!("{error}");
        }
    }
}
