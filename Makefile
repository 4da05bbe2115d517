# The errands of the house; `make help` lists them. Each brings what it needs.

CARGO ?= cargo
# Tools are looked for first and installed, if missing, into cargo's own folder.
SETUP := .ci/setup
# Fuzzing: seconds a target, and which targets.
SECONDS ?= 60
TARGETS ?= $(notdir $(basename $(wildcard fuzz/fuzz_targets/*.rs)))
# The demo: a file of your own (default: one it makes).
FILE ?=

.DEFAULT_GOAL := help
.PHONY: help test unit check fmt lint deny docs api-docs demo fuzz neon bench setup

help: ## List the errands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: check docs fuzz-brief unit ## Checks, the book, a brief fuzzing, tests; CI runs it, and neon

unit: setup ## The tests alone
	@.ci/count-tests $(CARGO) test --workspace

check: fmt lint deny api-docs ## Layout, lints, the rules of the house, licences, API documents
	$(CARGO) run --quiet -p xtask -- check

fmt:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check

lint:
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	# No unwrap outside tests, whose helper functions clippy does not know for tests.
	$(CARGO) clippy --workspace --lib --bins -- -D warnings -D clippy::unwrap_used

deny:
	@$(SETUP) cargo-deny
	$(CARGO) deny --log-level error check licenses bans sources

api-docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --workspace

docs: ## Build the book into docs/book
	@$(SETUP) mdbook
	mdbook build docs

demo: ## Real transfers over UDP on this machine: from three replicas, to three receivers [FILE=...]
	$(CARGO) run --release -p wellspring-cli -- demo $(if $(FILE),--file "$(FILE)")

fuzz: ## Fuzz what strangers can send [SECONDS=60] [TARGETS="..."] [SANITIZER=none] [SEED=N]
	@$(SETUP) cargo-fuzz
	@fuzz/run $(SECONDS) $(TARGETS)

.PHONY: fuzz-brief
fuzz-brief:
	@SANITIZER=none SEED=1 $(MAKE) --no-print-directory fuzz SECONDS=20

neon: ## Test the AArch64 kernels and RaptorQ with them, under emulation on other machines
	@$(SETUP) aarch64
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" \
	WELLSPRING_EXPECT_KERNEL=neon \
	$(CARGO) test --release -p wellspring-kernels -p wellspring-codec --lib --test roads --target aarch64-unknown-linux-gnu

bench: ## Run the benchmarks
	$(CARGO) bench --workspace

setup: ## Install the system packages that tests use
	@$(SETUP) packages
