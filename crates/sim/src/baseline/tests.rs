//! Every baseline against a model so dumb that it can be seen to be right, request by request.

use proptest::prelude::*;
use strata_trace::{Access, Freed, FreedPages, PageKey};

use super::{
    Baseline, Cache, Found,
    in_order::{Clock, Fifo, Sieve},
    lru::Lru,
    opt::Opt,
    s3_fifo::S3Fifo,
};
use crate::{
    simulate::{NoProgress, Setup, Simulate},
    workload::{Workload, WorkloadBuilder},
};

fn workload(pages: &[u64]) -> Workload {
    let access = |&page: &u64| Access {
        key: PageKey { space: 0, page },
        ..Access::default()
    };
    Workload::from_accesses("drawn", pages.iter().map(access)).unwrap()
}

fn hits<'w, C: Cache<'w>>(workload: &'w Workload, capacity: u32) -> Vec<bool> {
    let mut cache = C::new(workload, capacity);
    let requests = workload.requests().iter().zip(0..);
    requests
        .map(|(request, position)| cache.request(position, request.page()) == Found::Hit)
        .collect()
}

/// Pages of a workload, skewed or not, and a memory size.
fn drawn() -> impl Strategy<Value = (Vec<u64>, u32)> {
    let page = prop_oneof![3 => 0..6u64, 3 => 0..40u64, 1 => 0..400u64];
    (prop::collection::vec(page, 0..600), 1..48u32)
}

/// A list of pages, oldest first.
fn model_lru(pages: &[u64], capacity: usize) -> Vec<bool> {
    let mut list: Vec<u64> = Vec::new();
    let request = |&page: &u64| {
        let found = list.iter().position(|one| *one == page);
        if let Some(at) = found {
            list.remove(at);
        } else if list.len() == capacity {
            list.remove(0);
        }
        list.push(page);
        found.is_some()
    };
    pages.iter().map(request).collect()
}

fn model_fifo(pages: &[u64], capacity: usize) -> Vec<bool> {
    let mut list: Vec<u64> = Vec::new();
    let request = |&page: &u64| {
        let is_hit = list.contains(&page);
        if !is_hit {
            list.push(page);
            if list.len() > capacity {
                list.remove(0);
            }
        }
        is_hit
    };
    pages.iter().map(request).collect()
}

/// A list of (page, used) where a used page at the old end moves to the young end, unused.
fn model_clock(pages: &[u64], capacity: usize) -> Vec<bool> {
    let mut list: Vec<(u64, bool)> = Vec::new();
    let request = |&page: &u64| {
        if let Some(entry) = list.iter_mut().find(|(one, _)| *one == page) {
            entry.1 = true;
            return true;
        }
        if list.len() == capacity {
            while list[0].1 {
                let (spared, _) = list.remove(0);
                list.push((spared, false));
            }
            list.remove(0);
        }
        list.push((page, false));
        false
    };
    pages.iter().map(request).collect()
}

/// Looks ahead from each request, for each page in memory.
fn model_opt(pages: &[u64], capacity: usize) -> Vec<bool> {
    let mut list: Vec<u64> = Vec::new();
    let mut hits = Vec::new();
    for (now, page) in pages.iter().enumerate() {
        hits.push(list.contains(page));
        if list.contains(page) {
            continue;
        }
        if list.len() == capacity {
            let next = |page: &u64| pages[now..].iter().position(|one| one == page);
            let wait = |page: &u64| next(page).unwrap_or(usize::MAX);
            let farthest = (0..list.len()).max_by_key(|at| wait(&list[*at])).unwrap();
            list.remove(farthest);
        }
        list.push(*page);
    }
    hits
}

/// The pseudocode of the SIEVE paper over a vector, oldest first, the hand an index.
fn model_sieve(pages: &[u64], capacity: usize) -> Vec<bool> {
    let mut list: Vec<(u64, bool)> = Vec::new();
    let mut hand = 0;
    let request = |&page: &u64| {
        if let Some(entry) = list.iter_mut().find(|(one, _)| *one == page) {
            entry.1 = true;
            return true;
        }
        if list.len() == capacity {
            hand %= capacity;
            while list[hand].1 {
                list[hand].1 = false;
                hand = (hand + 1) % capacity;
            }
            list.remove(hand);
            // At the young end the hand begins anew with the oldest, before anything is added.
            if hand == list.len() {
                hand = 0;
            }
        }
        list.push((page, false));
        false
    };
    pages.iter().map(request).collect()
}

/// Three vectors of (page, uses), oldest first.
fn model_s3_fifo(pages: &[u64], capacity: usize) -> Vec<bool> {
    let small_max = (capacity / 10).max(1);
    let (mut small, mut main) = (Vec::<(u64, u32)>::new(), Vec::<(u64, u32)>::new());
    let (mut ghost, mut has_evicted) = (Vec::<u64>::new(), false);
    let request = |&page: &u64| {
        let mut all = small.iter_mut().chain(&mut main);
        if let Some(entry) = all.find(|(one, _)| *one == page) {
            entry.1 = (entry.1 + 1).min(3);
            return true;
        }
        let was_ghost = ghost.contains(&page);
        ghost.retain(|one| *one != page);
        while small.len() + main.len() == capacity {
            has_evicted = true;
            if small.is_empty() || main.len() > capacity - small_max {
                let (page, uses) = main.remove(0);
                if uses > 0 {
                    main.push((page, uses - 1));
                }
            } else {
                let (page, uses) = small.remove(0);
                if uses >= 2 {
                    main.push((page, 0));
                    // The authors go on with the small queue until one fails or it is empty.
                    while let Some((page, uses)) = small.first().copied() {
                        small.remove(0);
                        if uses < 2 {
                            ghost.push(page);
                            break;
                        }
                        main.push((page, 0));
                    }
                } else {
                    ghost.push(page);
                }
                while ghost.len() > capacity * 9 / 10 {
                    ghost.remove(0);
                }
            }
        }
        if was_ghost || !has_evicted && small.len() >= small_max {
            main.push((page, 0));
        } else {
            small.push((page, 0));
        }
        false
    };
    pages.iter().map(request).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn lru_evicts_what_was_used_the_longest_ago((pages, capacity) in drawn()) {
        let workload = workload(&pages);
        prop_assert_eq!(hits::<Lru>(&workload, capacity), model_lru(&pages, capacity as usize));
    }

    #[test]
    fn fifo_evicts_what_came_first((pages, capacity) in drawn()) {
        let workload = workload(&pages);
        prop_assert_eq!(hits::<Fifo>(&workload, capacity), model_fifo(&pages, capacity as usize));
    }

    #[test]
    fn clock_gives_what_was_used_another_round((pages, capacity) in drawn()) {
        let workload = workload(&pages);
        prop_assert_eq!(hits::<Clock>(&workload, capacity), model_clock(&pages, capacity as usize));
    }

    #[test]
    fn opt_misses_as_often_as_looking_ahead_says((pages, capacity) in drawn()) {
        // Ties between pages that are never wanted again may be broken either way.
        let workload = workload(&pages);
        prop_assert_eq!(hits::<Opt>(&workload, capacity), model_opt(&pages, capacity as usize));
    }

    #[test]
    fn sieve_spares_in_place((pages, capacity) in drawn()) {
        let workload = workload(&pages);
        prop_assert_eq!(hits::<Sieve>(&workload, capacity), model_sieve(&pages, capacity as usize));
    }

    #[test]
    fn s3_fifo_puts_newcomers_on_trial((pages, capacity) in drawn()) {
        let workload = workload(&pages);
        let model = model_s3_fifo(&pages, capacity as usize);
        prop_assert_eq!(hits::<S3Fifo>(&workload, capacity), model);
    }
}

/// Requests and, in front of each, the page that is freed, if any.
fn drawn_with_ends() -> impl Strategy<Value = (Vec<(u64, Option<u64>)>, u32)> {
    let page = || prop_oneof![3 => 0..6u64, 3 => 0..40u64];
    let freed = prop::option::weighted(0.2, page());
    (prop::collection::vec((page(), freed), 0..600), 1..32u32)
}

fn workload_with_ends(requests: &[(u64, Option<u64>)]) -> Workload {
    let mut builder = WorkloadBuilder::new("drawn");
    for ((page, freed), time_us) in requests.iter().zip(1..) {
        if let Some(page) = freed {
            let what = FreedPages::Page(PageKey {
                space: 0,
                page: *page,
            });
            builder.free(Freed { what, time_us });
        }
        let key = PageKey {
            space: 0,
            page: *page,
        };
        let access = Access {
            key,
            time_us,
            ..Access::default()
        };
        builder.push(access).unwrap();
    }
    builder.finish()
}

/// Lists of pages, oldest first: the misses of LRU and of FIFO.
fn model_misses_with_ends(requests: &[(u64, Option<u64>)], capacity: usize) -> [u64; 2] {
    [true, false].map(|is_lru| {
        let (mut list, mut nr_misses) = (Vec::new(), 0);
        for (page, freed) in requests {
            list.retain(|one| Some(*one) != *freed);
            let found = list.iter().position(|one| one == page);
            if found.is_none() {
                nr_misses += 1;
                if list.len() == capacity {
                    list.remove(0);
                }
                list.push(*page);
            } else if let Some(at) = found.filter(|_| is_lru) {
                list.remove(at);
                list.push(*page);
            }
        }
        nr_misses
    })
}

proptest! {
    #[test]
    fn freed_pages_leave_memory_at_once((requests, capacity) in drawn_with_ends()) {
        let workload = workload_with_ends(&requests);
        let setup = Setup::with_memory(capacity);
        let misses = |baseline: Baseline| {
            let outcome = baseline.run(&workload, &setup, &NoProgress);
            outcome.unwrap().nr_misses
        };
        let model = model_misses_with_ends(&requests, capacity as usize);
        prop_assert_eq!([misses(Baseline::Lru), misses(Baseline::Fifo)], model);
        let enough = Setup::with_memory(workload.footprint_pages().max(1));
        let endless = model_misses_with_ends(&requests, usize::MAX)[0];
        for &baseline in Baseline::ALL {
            prop_assert!(misses(Baseline::Opt) <= misses(baseline), "{}", baseline);
            let fits = baseline.run(&workload, &enough, &NoProgress).unwrap();
            prop_assert_eq!(fits.nr_misses, endless, "{}: the footprint is enough", baseline);
        }
    }
}

#[test]
fn the_optimum_does_not_mistake_a_freed_page_for_its_successor() {
    // Page 1 is freed and taken anew, and wanted to the end; page 3 is not.
    let plain = |page| (page, None);
    let requests = [
        plain(3),
        plain(1),
        (1, Some(1)),
        plain(2),
        plain(4),
        plain(1),
        plain(2),
    ];
    let workload = workload_with_ends(&requests);
    let outcome = Baseline::Opt.run(&workload, &Setup::with_memory(3), &NoProgress);
    assert_eq!(outcome.unwrap().nr_misses, 5);
}
