//! Prints what the hot paths cost, in ns a call: `cargo run --release -p strata-lru --example hot_path`.
//!
//! Visits folios in order, as a walk does, and in a scattered order, as faults do. Nothing is
//! gated: a shared machine is too noisy for that.
#![expect(clippy::print_stdout, reason = "printing is what the example is for")]
#![expect(
    clippy::disallowed_methods,
    reason = "a measurement needs a clock; the engine does not"
)]

use std::time::{Duration, Instant};

use strata_lru::{
    AccessVia, Arrival, Cause, Config, EvictBatch, FolioId, GoneCause, GroupId, Kind, MultiGen,
    NodeId, Order, Policy, ReclaimRequest, Swappiness, TimeMs, Verdict,
};

/// 4 GiB of base pages.
const NR_FOLIOS: usize = 1 << 20;

/// Best of this many rounds.
const NR_ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut engine = MultiGen::new(Config::default())?;
    let group = engine.add_group("/hot_path", TimeMs(0))?;
    let mut folios = Vec::with_capacity(NR_FOLIOS);
    let arrival = arrival_of(group);
    let grown = time(|| {
        for _ in 0..NR_FOLIOS {
            folios.push(engine.appeared(arrival)?);
        }
        Ok(())
    })?;
    report("appeared, the table growing", grown, NR_FOLIOS);
    let scattered = scattered(&folios);

    for (name, order) in [("in order", &folios), ("scattered", &scattered)] {
        let mut best = Duration::MAX;
        for _ in 0..NR_ROUNDS {
            let now = TimeMs(0);
            engine.finish_walk(group, Swappiness::DEFAULT, now)?;
            best = best.min(time(|| {
                for folio in order {
                    engine.accessed(*folio, AccessVia::PageTable);
                }
                Ok(())
            })?);
        }
        report(&format!("accessed, {name}"), best, NR_FOLIOS);
    }

    let mut best = Duration::MAX;
    for round in 0..NR_ROUNDS as u64 {
        for folio in &folios {
            engine.accessed(*folio, AccessVia::PageTable);
        }
        let now = TimeMs(round);
        best = best.min(time(|| {
            Ok(engine.finish_walk(group, Swappiness::DEFAULT, now)?)
        })?);
    }
    println!(
        "finish_walk of {NR_FOLIOS} hot folios: {:.1} us",
        best.as_secs_f64() * 1e6
    );

    let (mut gone, mut appeared) = (Duration::MAX, Duration::MAX);
    for _ in 0..NR_ROUNDS {
        gone = gone.min(time(|| {
            for folio in &scattered {
                engine.gone(*folio, GoneCause::Reclaimed);
            }
            Ok(())
        })?);
        appeared = appeared.min(time(|| {
            for _ in 0..NR_FOLIOS {
                engine.appeared(arrival)?;
            }
            Ok(())
        })?);
    }
    report("gone, scattered", gone, NR_FOLIOS);
    report("appeared, scattered", appeared, NR_FOLIOS);

    let mut batch = EvictBatch::default();
    let mut nr_evicted = 0;
    for _ in 0..4 {
        engine.finish_walk(group, Swappiness::DEFAULT, TimeMs(9))?;
    }
    let spent = time(|| {
        while nr_evicted < NR_FOLIOS / 2 {
            let request = ReclaimRequest::new(group, 512);
            engine.isolate(request, TimeMs(9), &mut batch)?;
            let nr_folios = batch.folios.len();
            engine.complete(&mut batch, &[Verdict::Evicted; 512][..nr_folios]);
            nr_evicted += nr_folios;
        }
        Ok(())
    })?;
    report("isolate and complete", spent, nr_evicted);

    let bytes = engine.memory_bytes() as f64 / NR_FOLIOS as f64;
    println!("{:34} {bytes:6.2} bytes a folio", "memory, all of it");
    engine.validate()?;
    Ok(())
}

fn arrival_of(group: GroupId) -> Arrival {
    Arrival {
        group,
        node: NodeId(0),
        kind: Kind::Anon,
        order: Order::BASE,
        cause: Cause::Fault,
        shadow: None,
        is_exec: false,
    }
}

/// All folios in an order that follows neither index nor list.
fn scattered(folios: &[FolioId]) -> Vec<FolioId> {
    // An odd multiplier permutes a power of two of indices.
    let index = |n: usize| n.wrapping_mul(0x9E37_79B1) % folios.len();
    (0..folios.len()).map(|n| folios[index(n)]).collect()
}

fn time(
    run: impl FnOnce() -> Result<(), Box<dyn std::error::Error>>,
) -> Result<Duration, Box<dyn std::error::Error>> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed())
}

fn report(what: &str, spent: Duration, calls: usize) {
    println!(
        "{what:34} {:6.1} ns a call",
        spent.as_secs_f64() * 1e9 / calls as f64
    );
}
