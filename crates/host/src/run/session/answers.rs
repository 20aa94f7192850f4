//! What others ask of a run while it goes on, answered between two ticks.
//!
//! **Owns** what each request does, and putting the status together. **Does not own** how questions come
//! and answers go (`remote`), nor orders that take longer than a tick (`reclaim_loop/orders`).
//!
//! **Invariants**
//! - I1: whatever is changed goes the way it goes at the start (limits through the group and its
//!   journal), so that undoing is the same.
//! - I2: an answer is given at once, or when the order it waits for is over.

use super::{BUDGET_BYTES_MIN, Session};
use crate::metrics;
use crate::remote::{ClientId, Form, Question, RemoteServer, Request, accept, refuse};
use crate::run::reclaim_loop::OrderError;
use crate::run::reclaim_loop::ReclaimLoop;
use crate::run::report::Ending;
use crate::run::status::{self, GroupStatus, Status};
use crate::run::trace::Note;
use serde_json::json;
use strata_control::Watermarks;
use strata_linux::units::SIZE_MAX_BYTES;
use strata_lru::lru_gen::format_plain;

/// Why there are no generations.
const NO_POLICY: &str = "nobody watches the pages of this run: it was started with --policy none";

impl Session<'_> {
    /// Answers what was asked since the last tick.
    pub(super) fn answer(&mut self) {
        let asks = self.remote.as_mut().map(RemoteServer::take);
        for ask in asks.unwrap_or_default() {
            let text = match ask.question {
                Question::Request(request) => self.consider(ask.client, request),
                Question::Metrics => Some(metrics::render(&self.status())),
                Question::Left => {
                    if let Some(managed) = &mut self.managed {
                        managed.cancel_orders_of(ask.client);
                    }
                    None
                }
                Question::Trouble(why) => {
                    self.warn(why);
                    None
                }
            };
            if let (Some(remote), Some(text)) = (&self.remote, text) {
                remote.answer(ask.client, text);
            }
        }
        let done = self.managed.as_mut().map(ReclaimLoop::take_done);
        for (client, outcome) in done.unwrap_or_default() {
            let text = match outcome {
                Ok(mut done) => {
                    if self.config.dry_run {
                        // What it decided on did not go.
                        done.nr_applied_pages = 0;
                    }
                    accept(&done)
                }
                Err(error) => refuse(&error.to_string(), error.errno()),
            };
            if let Some(remote) = &self.remote {
                remote.answer(client, text);
            }
        }
    }

    /// The answer, or `None` if it comes later.
    fn consider(&mut self, client: ClientId, request: Request) -> Option<String> {
        tracing::debug!(?request, "asked");
        let answer = match request {
            Request::Status {} => Ok(accept(&self.status())),
            Request::Groups {} => Ok(accept(&json!({ "groups": [self.group_status()] }))),
            Request::Generations {} => self.generations(),
            Request::LruGen { form } => self.lru_gen_text(form),
            Request::Command { text } => {
                return self.order(|managed| managed.order_commands(client, &text));
            }
            Request::Evict { bytes } => {
                let usage_bytes = self.usage_bytes().ok();
                let usage_bytes = usage_bytes.or_else(|| self.meter.last_bytes());
                let usage_bytes = usage_bytes.unwrap_or(bytes);
                return self.order(|managed| managed.order_eviction(client, bytes, usage_bytes));
            }
            Request::SetBudget { bytes } => self.set_budget(bytes),
            Request::Pause {} => Ok(self.set_paused(true)),
            Request::Resume {} => Ok(self.set_paused(false)),
            Request::DryRun { on } => self.set_dry_run(on),
        };
        Some(answer.unwrap_or_else(|why| refuse(&why, None)))
    }

    fn order(
        &mut self,
        give: impl FnOnce(&mut ReclaimLoop) -> Result<(), OrderError>,
    ) -> Option<String> {
        let given = match &mut self.managed {
            None => return Some(refuse(NO_POLICY, None)),
            Some(_) if self.is_paused => Err(OrderError::Paused),
            Some(managed) => give(managed),
        };
        let refused = given.err()?;
        Some(refuse(&refused.to_string(), refused.errno()))
    }

    fn generations(&self) -> Result<String, String> {
        let managed = self.managed.as_ref().ok_or(NO_POLICY)?;
        Ok(accept(&json!({ "nodes": managed.group.view(self.now()) })))
    }

    fn lru_gen_text(&mut self, form: Form) -> Result<String, String> {
        let now = self.now();
        let managed = self.managed.as_mut().ok_or(NO_POLICY)?;
        let text = match form {
            Form::Plain => format_plain(&managed.group.view(now)),
            Form::Full => managed
                .group
                .tracker
                .full_text(now)
                .map_err(|error| error.to_string())?,
        };
        Ok(accept(&json!({ "text": text })))
    }

    fn set_budget(&mut self, bytes: u64) -> Result<String, String> {
        if !(BUDGET_BYTES_MIN..=SIZE_MAX_BYTES).contains(&bytes) {
            return Err(format!(
                "a budget of {bytes} bytes can't be held: give {BUDGET_BYTES_MIN} to {SIZE_MAX_BYTES}"
            ));
        }
        let done = self.arena.set_budget(bytes);
        done.map_err(|error| format!("the budget stays as it is: {error}"))?;
        let now = self.now();
        self.marks = Watermarks::new(bytes, &self.config.control.watermarks);
        self.recorder.note(|| Note::Marks(self.marks));
        self.meter.set_budget(now, bytes);
        self.limit.set_budget(&self.marks);
        self.is_floor_told = false;
        self.look_for_tighter_limit();
        if let Some(managed) = &mut self.managed {
            managed.control.set_budget(bytes);
        }
        Ok(accept(&json!({
            "budget_bytes": bytes,
            "limit_bytes": self.arena.limit_bytes(),
        })))
    }

    fn set_paused(&mut self, is_paused: bool) -> String {
        self.is_paused = is_paused;
        if let (true, Some(managed)) = (is_paused, &mut self.managed) {
            managed.cancel_orders();
        }
        accept(&json!({ "is_paused": is_paused }))
    }

    fn set_dry_run(&mut self, on: Option<bool>) -> Result<String, String> {
        let is_dry_run = on.unwrap_or(!self.is_dry_run);
        let managed = self.managed.as_mut().ok_or(NO_POLICY)?;
        if self.config.dry_run && !is_dry_run {
            return Err(
                "this run was started with --dry-run, without anything to take pages with; start \
                 it again without"
                    .to_owned(),
            );
        }
        managed.set_dry_run(is_dry_run);
        self.is_dry_run = is_dry_run;
        Ok(accept(&json!({ "is_dry_run": is_dry_run })))
    }

    fn group_status(&self) -> GroupStatus {
        let managed = self.managed.as_ref();
        let views = managed.map(|managed| managed.group.view(self.now()));
        let gauge = &self.arena.gauge;
        let of_tree = || {
            let processes = managed?.group.observer.tree().processes();
            Some(processes.map(|process| process.pid()).collect())
        };
        GroupStatus {
            memcg: views
                .and_then(|views| Some(views.first()?.group.0))
                .unwrap_or(1),
            path: self.arena.name(self.program.pid()),
            measured_by: gauge.name(),
            usage_bytes: self.usage_bytes().ok(),
            budget_bytes: self.marks.budget_bytes,
            limit_bytes: self.arena.limit_bytes(),
            pids: gauge.processes().or_else(of_tree).unwrap_or_default(),
        }
    }

    /// How the run stands.
    fn status(&mut self) -> Status {
        let now = self.now();
        let managed = self.managed.as_ref();
        let views = managed.map_or_else(Vec::new, |managed| managed.group.view(now));
        let report = self.report(now, Ending::Detached, &views);
        let managed = self.managed.as_ref();
        Status {
            id: self.arena.place().map(|(id, _)| id.to_owned()),
            target: report.target,
            pid: self.program.pid(),
            elapsed_ms: report.elapsed_ms,
            is_paused: self.is_paused,
            is_dry_run: self.is_dry_run,
            policy: report.policy,
            actuator: report.actuator,
            usage_bytes: self.meter.last_bytes(),
            limit_bytes: self.arena.limit_bytes(),
            usage: report.usage,
            limit: report.limit,
            working_set_bytes: report.working_set_bytes,
            idle: match report.walks.nr_walks > 1 {
                true => status::idle(&views),
                false => Vec::new(),
            },
            generations: report.generations,
            eviction: managed.map(|_| report.eviction),
            walks: managed.map(|_| report.walks),
            kernel: report.kernel,
            saved: self.savings.last(),
            tracking_bytes: managed.map(|_| report.tracking_bytes),
            strata_cpu_ms: report.strata_cpu_ms,
            nr_processes: managed
                .map(|managed| managed.group.observer.tree().nr_processes() as u64),
            warnings: report.warnings,
        }
    }
}
