# Thin over scripts/: each can be run by itself and says at its top what it does.
.DEFAULT_GOAL := help
.PHONY: help run test test-rest check-all test-guest test-long check bench evaluate evaluate-plan evaluate-guard evaluate-park evaluate-tiers evaluate-density evaluate-letters coverage mutations fuzz man package fmt clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

run: ## what Strata is for: a redis whose data is mostly idle, memory given back and its price; where that can't be, the simulator
	@scripts/demo.sh

test: ## format, lints, unit and live tests; ends in a count
	@scripts/test.sh

test-rest: ## what make test leaves out: rustdoc, the wheel for Python, a few tests in guests; ends in a count
	@scripts/test.sh --rest

check-all: test-rest test ## both

test-guest: ## the live tests under kernels 6.1 and 6.12, MGLRU on and off (FILTER=name)
	@scripts/test-guest.sh $(FILTER)

test-long: ## the tests that take too long for every day (FILTER=name)
	@scripts/test-long.sh $(FILTER)

check: ## quick: does it compile, is it tidy
	@scripts/setup.sh
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets -- -D warnings
	@cargo test -q -p strata --test tidy --test layers

bench: ## speed, scans and kills beside the kernel alone, an hour and a half; writes docs/validation/benchmarks/ (NAME=name for another, NAME=all)
	@scripts/bench.sh $(NAME)

evaluate: ## against real kernels and the best policies known; writes docs/validation/fidelity.md, docs/develop/evaluation.md
	@scripts/evaluate.sh

mutations: ## breaks each rule of the engine once; its test has to fail (docs/develop/RULES.md)
	@scripts/mutations.py

fuzz: ## each fuzz target for a while (FUZZ_SECONDS); writes docs/develop/fuzz.md
	@scripts/fuzz.sh

coverage: ## which lines of the engine its tests run
	@scripts/coverage.sh

evaluate-guard: ## what a guard gives back of real programs, and what that costs; writes docs/validation/guard.md (QUICK=1: six minutes, writes nothing)
	@scripts/evaluate-guard.sh

evaluate-park: ## what parked programs give, and how soon they answer again; writes docs/validation/park.md (QUICK=1: one round, writes nothing)
	@scripts/evaluate-park.sh

evaluate-density: ## how many sandboxes or tabs a host holds, beside the kernel alone; writes docs/validation/density.md (QUICK=1: writes nothing)
	@scripts/evaluate-density.sh

evaluate-tiers: ## what goes to slower memory and comes up, in guests with two nodes; writes docs/validation/tiering.md (QUICK=1: writes nothing)
	@scripts/evaluate-tiers.sh

evaluate-plan: ## do plans come true? the tables of docs/validation/plan-validation.md
	@scripts/evaluate-plan.sh

evaluate-letters: ## what the letters of the multi-generational LRU claim, tried here; writes docs/validation/letters.md (ROW=n; QUICK=1: writes nothing)
	@scripts/evaluate-letters.sh

man: ## the manual pages, one for each verb, to target/man/
	@scripts/setup.sh
	@cargo run -q -p strata -- man target/man

package: ## .deb, .rpm, an archive with one static program, and an image, to target/package/
	@scripts/package.sh

fmt: ## formats the sources
	@cargo fmt --all

clean: ## removes what was built and unpacked; downloaded guest kernels stay in ~/.cache/strata
	@rm -rf target
