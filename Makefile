# make demo: build, run one job on an aged drive.   make test: everything that is checked.
# Its properties draw the same cases each time; cargo test alone draws others.
# A Rust toolchain is expected; make test adds Debian packages by name.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: demo test tables test-python python-package docs docs-record fast deb wheel seeds jobs mutants gate bench build lint setup-test setup-python setup-bench clean

WORDLINE := target/release/wordline

build:
	@cargo build --release --quiet -p wordline-cli

# Aged drives are kept here, not in the user's cache.
KEPT := XDG_CACHE_HOME=$(CURDIR)/target/cache
DEMO := examples/mixed.fio --device cnex-westlake --scale quick --precondition steady
# Both run at once, and the second is shown after the first.
DEMO_PBLK := $(WORDLINE) run $(DEMO) --ftl pblk --slowest 1
DEMO_RAIL := $(WORDLINE) run $(DEMO) --ftl rail --output target/demo-rail.txt
demo: build
	@export $(KEPT); \
	$(DEMO_RAIL) 2> target/demo-rail.log & rail=$$!; \
	echo "$(DEMO_PBLK)"; \
	$(DEMO_PBLK) || { status=$$?; kill $$rail; exit $$status; }; \
	echo; echo "The same on RAIL, whose reads do not wait for programs (all of it: target/demo-rail.txt):"; \
	echo "$(DEMO_RAIL)"; \
	wait $$rail; status=$$?; cat target/demo-rail.log >&2; (( status == 0 )) || exit $$status; \
	grep -E 'IOPS=|^  (read|write) \(|^  (LUN wait|all) |^  (write ampl|strides)' target/demo-rail.txt

# A test of a served drive that lacks what it needs (root, FUSE, loop devices, io_uring, a program) fails;
# with make test WORDLINE_TESTS= it says so and passes.
WORDLINE_TESTS ?= all
test: setup-test setup-python lint
	@# Python's package is built in the same call. In a call of its own cargo compiles the CLI once more, with fewer features.
	PYO3_BUILD_EXTENSION_MODULE=1 cargo build --profile test --workspace --lib --tests
	cp target/debug/lib_wordline.so $(MODULE)
	PROPTEST_RNG_SEED=1 WORDLINE_TESTS=$(WORDLINE_TESTS) scripts/tests
	target/debug/wordline study tables $(DOCUMENTS) --scale quick --run --check --quiet --no-cache --out target/tables
	$(PYTEST)
	@$(MAKE) --no-print-directory gate

# The package wordline for Python, from the same crates as the tests above are built of.
PYTHON := target/venv/bin/python
MODULE := python/wordline/_wordline.abi3.so
PYTEST = WORDLINE_TESTS=$(WORDLINE_TESTS) PYTHONPATH=python $(PYTHON) -m pytest -n 2
test-python: python-package
	$(PYTEST)

python-package: setup-python
	PYO3_BUILD_EXTENSION_MODULE=1 cargo build --profile test -p wordline-python -p wordline-cli
	cp target/debug/lib_wordline.so $(MODULE)

# The documentation site, in target/docs. Warnings are errors, and so is a link that leads nowhere.
docs: python-package
	$(PYTHON) -m sphinx -q -W --keep-going -d target/doctrees docs target/docs
	@echo target/docs/index.html

# Writes the numbers anew that tutorial and how-to guides show.
docs-record: python-package
	WORDLINE_DOCS=record PYTHONPATH=python $(PYTHON) -m pytest -n 2 python/tests/test_docs.py

# The program built with a profile of its runs, which does the same in fewer instructions; its path is printed.
fast:
	@scripts/fast

# A wheel for every Python from 3.11 on, in target/wheels; pip install . makes the same.
wheel: setup-python
	$(PYTHON) -m maturin build --release --quiet --out target/wheels
	@ls target/wheels/*.whl

# A Debian package in target/deb: the program as make fast builds it, where the compiler has llvm-profdata, its manual
# pages, completions and examples. lintian looks at it where it is there.
deb:
	@scripts/need dpkg-shlibdeps dpkg-dev strip binutils
	@program=$$(scripts/fast --or-plain) && package=$$(scripts/deb $$program target/deb) && \
	    { ! command -v lintian >/dev/null || lintian --allow-root --fail-on error,warning $$package; } && echo $$package

# More seeds of the FTL's properties: make seeds SEEDS=5000
SEEDS ?= 5000
seeds:
	WORDLINE_SEEDS=$(SEEDS) cargo test --release -p wordline-ftl --test ftl rail::

# More jobs beside fio itself, from seed SEED on: make jobs JOBS=5000 SEED=1
JOBS ?= 5000
SEED ?= 1
jobs: setup-test
	WORDLINE_FIO_JOBS=$(JOBS) WORDLINE_FIO_SEED=$(SEED) \
	    cargo test -p wordline-fio --test fio -- drawn_jobs_match_fio --nocapture

# Bugs planted one at a time, and the tests that ought to see them: make mutants MUTANTS="fs- nbd-"
MUTANTS ?=
mutants:
	scripts/mutants --record $(MUTANTS)

# The tables of documents, from results that this runs: make tables SCALE=whole takes an hour. Those of programs take
# minutes at the quick scale, and make test leaves them out.
DOCUMENTS := docs/design/fidelity.md $(wildcard studies/*/README.md)
SCALE ?= quick
tables:
	cargo build --quiet -p wordline-cli
	$(KEPT) target/debug/wordline study tables $(DOCUMENTS) studies/rail/programs.md --scale $(SCALE) --run --out results

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	@# As make demo builds it, without TLS. Beside the Python package most dependencies have the features that they have
	@# above, and are not checked twice.
	cargo clippy -p wordline-cli -p wordline-python --quiet -- -D warnings

# What a fixed amount of work costs in instructions, against the record.
gate: setup-bench
	cargo build --release --quiet -p wordline-bench
	benches/gate

bench: setup-bench
	cargo build --release --quiet -p wordline-bench
	benches/run

setup-test:
	@scripts/need dpkg-shlibdeps dpkg-dev strip binutils fio fio zstd zstd nbdinfo libnbd-bin qemu-io qemu-utils nbdsh python3-libnbd openssl openssl
	@scripts/need fusermount3 fuse3 nbdfuse libnbd-bin mkfs.ext4 e2fsprogs mkfs.xfs xfsprogs xfs_io xfsprogs \
	    chromium chromium node nodejs npm npm sqlite3 sqlite3 db_bench rocksdb-tools wt wiredtiger pgbench postgresql
	@cd crates/cli/tests/browser && cmp -s package-lock.json node_modules/.wordline-lock || \
	    { npm ci --silent --no-audit --no-fund && cp package-lock.json node_modules/.wordline-lock; }

# A folder with the packages of python/requirements.txt, made anew when that changes.
setup-python: target/venv/.made
target/venv/.made: python/requirements.txt
	@python3 -m venv target/venv 2>/dev/null || { scripts/need "" python3-venv; python3 -m venv target/venv; }
	@target/venv/bin/python -m pip install --quiet --disable-pip-version-check -r python/requirements.txt
	@touch $@

setup-bench:
	@scripts/need valgrind valgrind

clean:
	cargo clean
