# Make targets for developers and CI; `make help` lists them. Each installs what it needs.

CARGO ?= cargo
# Tools are looked for first and installed, if missing, into cargo's own folder.
SETUP := .ci/setup
# Fuzzing: seconds a target, and which targets (default: all).
SECONDS ?= 60
TARGETS ?=
# The demo: a file of your own (default: one it makes).
FILE ?=

# What CI runs, in order: what fails fast comes first; those joined by + at the same time.
PARTS := setup fmt+deny+rules+package unit-build unit+lint+python-test+neon+cross+api-docs+docs web-test+test-32-bit
# Crates that build on every target; Maelstrom needs a C compiler for it, and the rest is for Linux.
ANYWHERE := $(addprefix -p wellspring-,core kernels codec wire fabric transport sim scenario experiments figures)
# Virtual sockets, for transfers under faults. The driver that is shipped has none, so they are not on by default; all tests run with
# them, so that its crates are built once.
TRANSFERS := wellspring-fault-sim/transfers
# What is linted; API documents take the same, or every dependency would be checked once more for them.
LINTED := wellspring-lab/quic,$(TRANSFERS)
# Not Unix: the simulator, and what it stands on. With 32 bits, and without an operating system, they are built for the web page.
CROSS := x86_64-pc-windows-gnu
ON_WINDOWS := -p wellspring-sim
# Crates that macOS has besides. Their C libraries are not compiled for it: there is no SDK here.
MACOS := aarch64-apple-darwin
ON_MACOS := $(ANYWHERE) $(addprefix -p wellspring-,client server cli)
# Integers of its C library have other widths: conversions that Linux needs.
OF_LINUX := -A clippy::useless_conversion -A clippy::unnecessary_cast
# The nightly run, in order; how long each part takes: seconds a fuzz target, cases of each property, rounds of racing
# writers, seeds of the store on a disk that fails and of transfers, seconds of transfers under faults, size of the objects that outlive
# them [MB], papers whose figures are reproduced and how (SCALE=--quick).
NIGHTLY := nightly-fuzz nightly-tests nightly-faults nightly-soak nightly-reach nightly-guest nightly-python nightly-figures nightly-package
FUZZ_SECONDS ?= 1800
# Inputs after which a target has had enough: parsers take minutes for them.
FUZZ_RUNS ?= 100000000
CASES ?= 5000
ROUNDS ?= 1000
FAULT_SEEDS ?= 1000000
TRANSFER_SEEDS ?= 1000000
SOAK_SECONDS ?= 3600
REACH_MB ?= 10000
PAPERS ?= scdp polyraptor lttp maelstrom open
SCALE ?=
# Records of figures at full size are the tree's, and the book shows them.
RECORDS ?= $(if $(SCALE),target/records,results)
# Optimised, with the checks of debug builds; PROFILE=dev takes what `make unit` has built.
PROFILE ?= fuzz

# The web page.
PAGE := $(abspath $(or $(CARGO_TARGET_DIR),target))/web/wellspring.html

.DEFAULT_GOAL := help
.PHONY: help test $(subst +, ,$(PARTS)) web wheel wheels python-full python-reach check demo fuzz report nightly $(NIGHTLY) bench dist dist-test

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## Everything CI runs, with the time of each part
	@.ci/parts $(PARTS)

check: fmt lint deny api-docs rules ## Layout, lints, licences, API documents, the rules of the workspace

unit-build: setup
	$(CARGO) test --workspace --features $(TRANSFERS) --tests --no-run

# Examples are checked by `lint`. Where one binary fails, the others run all the same: one run tells of all that is wrong.
unit: setup ## The tests alone
	@.ci/count-tests $(CARGO) test --workspace --features $(TRANSFERS) --no-fail-fast --tests
	@.ci/count-tests $(CARGO) test --workspace --features $(TRANSFERS) --doc

transfers: ## Clients and servers on virtual machines under faults, each run from one seed [SEEDS=10000]
	@.ci/count-tests $(CARGO) test --workspace --features $(TRANSFERS) --test transfers

fmt:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --workspace --all-targets --features $(LINTED) -- -D warnings

deny: ## Licences, bans and sources of dependencies; advisories where their database can be fetched
	@$(SETUP) cargo-deny
	$(CARGO) deny --log-level error check licenses bans sources
	@.ci/advisories

api-docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --workspace --features $(LINTED)

rules:
	$(CARGO) run --quiet -p xtask -- check

docs: web ## Build the book, with the page, into docs/book
	@$(SETUP) mdbook
	mdbook build docs
	@[ ! -e $(PAGE) ] || cp $(PAGE) docs/book/network.html

web: ## Build the page "Break this network": one file, target/web/wellspring.html
	@if $(SETUP) std wasm32-unknown-unknown; then crates/web/page/build; \
	else echo "NOT BUILT: the page; the standard library for it could not be fetched" >&2; fi

web-test: web ## Test the page in headless Chromium; pictures go to target/web/pictures
	@if [ -e $(PAGE) ] && $(SETUP) browser; then \
		WELLSPRING_PAGE=$(PAGE) .ci/count-tests $(CARGO) test --workspace --features $(TRANSFERS) --test browser -- --ignored --test-threads 1; \
	else echo "NOT TESTED: the page; there is no browser, or no page" >&2; fi

package: ## Package each crate by itself, as for publishing
	$(CARGO) package --workspace --exclude xtask --exclude wellspring-fuzz --no-verify --allow-dirty --quiet

cross: export CC_aarch64_apple_darwin = $(CURDIR)/.ci/no-cc
cross: export AR_aarch64_apple_darwin = $(CURDIR)/.ci/no-cc
cross: export SDKROOT = /
# On macOS, without virtual sockets, as they are shipped.
cross: ## Check the simulator on Windows, and on macOS the crates that build anywhere and the command
	@if $(SETUP) std $(CROSS) $(MACOS); then \
		set -ex; $(CARGO) check --quiet $(ON_WINDOWS) $(addprefix --target ,$(CROSS)); \
		$(CARGO) clippy --quiet $(ON_MACOS) --target $(MACOS) -- -D warnings $(OF_LINUX); \
	else echo "NOT CHECKED: $(CROSS) $(MACOS); their standard library could not be fetched" >&2; fi

wheel: ## Build the Python wheel: target/wheels [TARGET=aarch64-unknown-linux-gnu]
	@python/make wheel $(TARGET)

wheels: ## Build the wheels of all platforms that can be built here
	@python/make wheels

python-test: ## Test the wheel in a clean virtual environment
	@python/make test

python-full: ## The same with data frames, plots, Dask and the notebooks [TORCH=1]
	@python/make full

python-reach: ## Measure the Python package beside what people use today: a table
	@python/make reach

demo: ## Real transfers over UDP on this machine: from three replicas, to three receivers [FILE=...]
	$(CARGO) run --release -p wellspring-cli -- demo $(if $(FILE),--file "$(FILE)")

fuzz: ## Fuzz what strangers can send [SECONDS=60] [TARGETS="..."] [SANITIZER=address] [SEED=N]
	@fuzz/run $(SECONDS) $(TARGETS)

# Static binaries, linked by the linker that comes with rustc: no cross compiler, no C library.
test-32-bit: export CARGO_TARGET_I686_UNKNOWN_LINUX_MUSL_LINKER = rust-lld
test-32-bit: export CARGO_TARGET_I686_UNKNOWN_LINUX_MUSL_RUSTFLAGS = -C linker-flavor=ld.lld
test-32-bit: ## Test the codec where usize has 32 bits
	@if $(SETUP) std i686-unknown-linux-musl; then \
		.ci/count-tests $(CARGO) test -p wellspring-codec --lib --target i686-unknown-linux-musl; \
	else echo "NOT TESTED: 32 bits; the standard library could not be fetched" >&2; fi

neon: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER = rust-lld
neon: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS = -C linker-flavor=ld.lld
neon: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER = $(if $(filter aarch64,$(shell uname -m)),,qemu-aarch64)
neon: export WELLSPRING_EXPECT_KERNEL = neon
# Emulated, what large blocks do, and the tests of all else in the codec, would take minutes, and show nothing of the kernels that
# small blocks by each path do not.
neon: ## Test the AArch64 kernels and RaptorQ with them, under emulation on other machines
	@if $(SETUP) emulator && $(SETUP) std aarch64-unknown-linux-musl; then \
		.ci/count-tests $(CARGO) test --target aarch64-unknown-linux-musl -p wellspring-kernels --lib && \
		.ci/count-tests $(CARGO) test --target aarch64-unknown-linux-musl -p wellspring-codec --test decoding_paths \
			$(if $(filter aarch64,$(shell uname -m)),,-- --skip large_blocks_around --skip every_table_row); \
	else echo "NOT TESTED: the AArch64 kernels; their standard library could not be fetched" >&2; fi

report: ## Draw the figures from the records in results/, without simulating: target/report, and the book's pages
	$(CARGO) run --quiet -p wellspring-lab -- reproduce --all --redraw --records $(RECORDS) --report target/report \
		$(if $(filter results,$(RECORDS)),--book docs/src)

dist: ## Build what is released into target/dist: static binaries, .deb, image, checksums, bill of materials
	@packaging/dist $(or $(CARGO_TARGET_DIR),target)/dist

dist-test: dist ## Install the .deb below a root of its own, unpack the image, fetch a file from a server of each
	@packaging/try $(or $(CARGO_TARGET_DIR),target)/dist

nightly: ## What takes hours: long fuzzing, more random cases, slow tests, every figure, packages built
	@.ci/parts $(NIGHTLY)

nightly-fuzz:
	@SANITIZER=address RUNS=$(FUZZ_RUNS) fuzz/run $(FUZZ_SECONDS) $(TARGETS)

nightly-tests: web
	@$(SETUP) browser
	WELLSPRING_PAGE=$(PAGE) PROPTEST_CASES=$(CASES) ROUNDS=$(ROUNDS) .ci/count-tests \
		$(CARGO) test --workspace --features $(TRANSFERS) --profile $(PROFILE) -- --include-ignored --skip ::program_

nightly-faults:
	SEEDS=$(FAULT_SEEDS) $(CARGO) test --profile $(PROFILE) --workspace --features $(TRANSFERS) --test seeds -- --nocapture
	SEEDS=$(TRANSFER_SEEDS) $(CARGO) test --profile $(PROFILE) --workspace --features $(TRANSFERS) --test transfers -- --nocapture

nightly-soak:
	SEED=$${SEED:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')} SOAK_SECONDS=$(SOAK_SECONDS) \
		$(CARGO) test --profile $(PROFILE) --workspace --features $(TRANSFERS) --test it soak:: -- --nocapture

nightly-reach:
	@PROFILE=$(PROFILE) lab/trust --mb $(REACH_MB) --rounds $(ROUNDS)
	$(CARGO) build --release -p wellspring-cli
	WELLSPRING=$${CARGO_TARGET_DIR:-target}/release/wellspring lab/powercut
	WELLSPRING=$${CARGO_TARGET_DIR:-target}/release/wellspring lab/crash --rounds $(ROUNDS)
	lab/trust --only speed --profile release --program $${CARGO_TARGET_DIR:-target}/release/wellspring

nightly-guest:
	lab/guest

nightly-python: python-full

nightly-figures:
	$(CARGO) build --release -p wellspring-cli -p wellspring-lab
	for paper in $(PAPERS); do $(CARGO) run --release -p wellspring-lab -- reproduce $$paper $(SCALE) \
		-o target/figures --records $(RECORDS) || exit 1; done
	@$(MAKE) --no-print-directory report

nightly-package:
	$(CARGO) package --workspace --exclude xtask --exclude wellspring-fuzz --allow-dirty --quiet
	@$(MAKE) --no-print-directory dist-test

bench: ## Run the benchmarks
	$(CARGO) bench --workspace

setup: ## Install the system packages that tests use
	@$(SETUP) packages
