//! Many runs over one workload: every policy with every amount of memory.
//!
//! Runs are spread over threads, a run is one thread. What comes back is in the order asked for,
//! policies outside and sizes inside, whichever run ended first.
//!
//! **Owns** the threads. **Does not own** what a run is (`simulate`) or how it is shown (`report`).

use rayon::prelude::*;

use crate::{
    outcome::Outcome,
    simulate::{Progress, Setup, SimError, Simulate},
    spec::PolicySpec,
    workload::Workload,
};

/// What a run takes for each page and each request of its workload, at most, and whatever it replays.
const RUN_PAGE_BYTES: u64 = 128;
const RUN_REQUEST_BYTES: u64 = 16;
const RUN_BYTES: u64 = 4 << 20;

/// Bytes that one replay of the workload takes at most, by any policy and with any amount of memory.
pub fn run_bytes_max(workload: &Workload) -> u64 {
    RUN_BYTES
        + u64::from(workload.nr_pages()) * RUN_PAGE_BYTES
        + u64::from(workload.nr_requests()) * RUN_REQUEST_BYTES
}

/// A run that is done.
#[derive(Clone, Debug)]
pub struct Run {
    /// The policy as it was asked for.
    pub policy: String,
    /// What it was given.
    pub setup: Setup,
    /// What came out.
    pub outcome: Outcome,
}

/// A run that failed, or threads that can't be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunsError {
    /// One run failed; the others are lost with it.
    #[error("{policy} with {memory_pages} pages on {trace}: {error}")]
    Run {
        /// The policy as it was asked for.
        policy: String,
        /// Pages of memory of the run.
        memory_pages: u32,
        /// Name of the workload.
        trace: String,
        /// Why.
        error: SimError,
    },
    /// The operating system gives no threads.
    #[error("can't start {nr_jobs} threads: {error}")]
    Threads {
        /// How many were asked for; 0 is one a processor.
        nr_jobs: usize,
        /// Why.
        error: rayon::ThreadPoolBuildError,
    },
}

/// Threads for runs.
#[derive(Debug)]
pub struct Jobs(rayon::ThreadPool);

impl Jobs {
    /// So many threads at once; 0 is one a processor.
    ///
    /// # Errors
    /// Threads can't be had.
    pub fn try_new(nr_jobs: usize) -> Result<Jobs, RunsError> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(nr_jobs).build();
        let pool = pool.map_err(|error| RunsError::Threads { nr_jobs, error })?;
        Ok(Jobs(pool))
    }

    /// Replays the workload by every policy under every setup; when pages came back is not kept, as that
    /// may take as much memory as the workload.
    ///
    /// # Errors
    /// The first run in order that failed.
    pub fn replay(
        &self,
        workload: &Workload,
        policies: &[PolicySpec],
        setups: &[Setup],
        progress: &dyn Progress,
    ) -> Result<Vec<Run>, RunsError> {
        let forget = |outcome: &mut Outcome| {
            if let Some(reclaim) = &mut outcome.reclaim {
                reclaim.refaults_by_time = Vec::new();
            }
        };
        self.replay_then(workload, policies, setups, progress, forget)
    }

    /// Replays, and keeps what `then` leaves of each outcome as soon as it is there.
    pub(crate) fn replay_then(
        &self,
        workload: &Workload,
        policies: &[PolicySpec],
        setups: &[Setup],
        progress: &dyn Progress,
        then: impl Fn(&mut Outcome) + Sync,
    ) -> Result<Vec<Run>, RunsError> {
        let pairs: Vec<(&PolicySpec, &Setup)> = policies
            .iter()
            .flat_map(|policy| setups.iter().map(move |setup| (policy, setup)))
            .collect();
        let replay = |(policy, setup): &(&PolicySpec, &Setup)| {
            let outcome = policy.run(workload, setup, progress);
            let mut outcome = outcome.map_err(|error| RunsError::Run {
                policy: policy.to_string(),
                memory_pages: setup.memory_pages,
                trace: workload.name().to_owned(),
                error,
            })?;
            then(&mut outcome);
            Ok(Run {
                policy: policy.to_string(),
                setup: (*setup).clone(),
                outcome,
            })
        };
        // One by one: a run takes long, and large memories take longer than small ones.
        let runs: Vec<Result<Run, RunsError>> = self
            .0
            .install(|| pairs.par_iter().with_max_len(1).map(replay).collect());
        runs.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{baseline::Baseline, simulate::NoProgress};
    use std::sync::atomic::{AtomicU64, Ordering};
    use strata_trace::Generator;

    fn workload() -> Workload {
        let accesses: Generator = "gen:zipf,pages=500,accesses=100000".parse().unwrap();
        Workload::from_accesses("zipf", accesses).unwrap()
    }

    fn policies() -> Vec<PolicySpec> {
        let names = Baseline::NAMES.iter();
        names.map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn runs_come_in_the_order_asked_for_whatever_the_threads() {
        let (workload, setups) = (workload(), [9, 200, 40].map(Setup::with_memory));
        let replay = |nr_jobs| {
            let jobs = Jobs::try_new(nr_jobs).unwrap();
            let runs = jobs
                .replay(&workload, &policies(), &setups, &NoProgress)
                .unwrap();
            let line = |run: &Run| {
                (
                    run.policy.clone(),
                    run.setup.memory_pages,
                    run.outcome.nr_misses,
                )
            };
            runs.iter().map(line).collect::<Vec<_>>()
        };
        let one = replay(1);
        let sizes: Vec<u32> = one.iter().map(|(_, pages, _)| *pages).collect();
        assert_eq!(sizes, [9, 200, 40].repeat(Baseline::ALL.len()));
        assert_eq!(one, replay(4));
    }

    #[test]
    fn the_first_run_that_fails_is_named() {
        let setups = [5, 0, 0].map(Setup::with_memory);
        let jobs = Jobs::try_new(2).unwrap();
        let failed = jobs.replay(&workload(), &policies(), &setups, &NoProgress);
        let text = failed.unwrap_err().to_string();
        assert_eq!(
            text,
            "lru with 0 pages on zipf: 0 pages of memory: give at least 1"
        );
    }

    #[test]
    fn progress_adds_up_to_every_request_of_every_run() {
        #[derive(Default)]
        struct Sum(AtomicU64);
        impl Progress for Sum {
            fn advance(&self, nr_requests: u64) {
                self.0.fetch_add(nr_requests, Ordering::Relaxed);
            }
        }
        let sum = Sum::default();
        let setups = [9, 40].map(Setup::with_memory);
        let jobs = Jobs::try_new(2).unwrap();
        let runs = jobs
            .replay(&workload(), &policies(), &setups, &sum)
            .unwrap();
        assert_eq!(sum.0.into_inner(), runs.len() as u64 * 100_000);
    }
}
