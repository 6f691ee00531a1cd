# `make help` lists the targets. Only make and Python 3.11 or newer are needed; everything else lands in .venv.
#
#   PYTHON=python3.12   the Python that .venv is made with     (default: the newest usable one)
#   WORKERS=3           pytest processes of `make test`; they mostly wait
#   SEEDS=2000 SEED=1   how many seeds `make sim` runs, and the first
#   ARGS="..."          more arguments for `yak demo failover`, pytest, or the benchmark

SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

WORKERS ?= 3
ARGS ?=
SEEDS ?= 200
SEED ?= 1
BIN := .venv/bin

# 3.14 comes last: the pinned versions are tested on 3.11 to 3.13.
CANDIDATES := python3.13 python3.12 python3.11 python3.14 python3

# Shell text, run by the recipes that need it: `make help` works without any Python.
define bootstrap
python='$(PYTHON)'; \
if [ -z "$$python" ]; then \
  for candidate in $(CURDIR)/$(BIN)/python $(CANDIDATES); do \
    if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then python=$$candidate; break; fi; \
  done; \
fi; \
if [ -z "$$python" ]; then \
  echo 'error[no-python]: Python 3.11 or newer was not found' >&2; \
  echo '  why:  looked for $(CANDIDATES) on PATH' >&2; \
  echo '  try:  install it, or name it: make setup PYTHON=/path/to/python3' >&2; \
  exit 2; \
fi; \
"$$python" packaging/bootstrap.py
endef

.PHONY: help
help:  ## this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

.PHONY: setup
setup:  ## create .venv with all development tools
	@$(bootstrap) dev

.PHONY: demo
demo:  ## kill a leader under load, then a group member; count every record
	@$(bootstrap) demo
	@$(BIN)/yak demo failover $(ARGS)
	@echo
	@$(BIN)/yak demo groups --fast

.PHONY: demo-spark
demo-spark:  ## live metrics through YAK and Spark; kill both, check every window
	@$(bootstrap) spark
	@$(BIN)/yak demo spark $(ARGS)

.PHONY: lint
lint: setup  ## ruff, mypy --strict, and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy packaging/bootstrap.py packaging/build.py packaging/deb.py packaging/manual.py packaging/notices.py packaging/release.py packaging/wheels.py tests/release/*.py docs/generate_kafka_apis.py docs/generate_kafka_releases.py docs/generate_reference.py docs/make_picture.py docs/make_screenshots.py docs/site_hooks.py docs/examples/run.py
	$(BIN)/lint-imports --no-logo

# Some libraries of macOS do not work after a fork: there each worker of xdist collects the tests by itself.
RUN_TESTS = $(BIN)/python tests/run.py $(if $(filter Linux,$(shell uname)),--workers,--dist=loadfile -n) $(WORKERS) --durations=25

.PHONY: check
check: lint  ## lint and the unit tests, in a few minutes
	$(RUN_TESTS) tests/unit $(ARGS)

.PHONY: test
test: setup  ## the tests, including those with real clients, and lint beside them
	$(RUN_TESTS) --lint -m "not thorough" $(ARGS)

.PHONY: test-all
test-all: lint  ## all tests, Spark's kills and tutorial among them, 10,000 seeds, all mutants: an hour or more
	YAK_TESTS_LONGEST_S=14400 $(RUN_TESTS) --exec-yak --all-examples $(ARGS)
	$(BIN)/yak sim run --brokers 3 --seed 10001 --seeds 5000
	$(BIN)/yak sim run --brokers 3 --metadata both --seed 10001 --seeds 400
	$(BIN)/yak sim run --brokers 2 --seed 10001 --seeds 300
	$(BIN)/yak sim run --brokers 4 --seed 10001 --seeds 300
	$(BIN)/yak sim run --seed 10001 --seeds 1000
	$(BIN)/yak sim quorum --seed 10001 --seeds 3000
	$(BIN)/yak sim mutants
	$(BIN)/python tests/kafka/run.py
	$(BIN)/python docs/examples/run.py

.PHONY: kafka-tests
kafka-tests: setup  ## Apache Kafka's own tests against YAK; ARGS="CLASS ..." (needs a JDK, mvn)
	$(BIN)/python tests/kafka/run.py $(ARGS)

.PHONY: client-suites
client-suites: setup  ## client libraries' own tests against YAK; ARGS="NAME ..." (needs git, and a compiler, Go or npm for some)
	$(BIN)/python tests/clients/run.py $(ARGS)

.PHONY: examples
examples: setup  ## example test suites of five languages against one cluster; ARGS="go java node python rust"
	$(BIN)/python docs/examples/run.py $(ARGS)

.PHONY: sim
sim: setup  ## simulate SEEDS=200 clusters of three brokers and of one, on all cores
	$(BIN)/yak sim run --brokers 3 --seed $(SEED) --seeds $(SEEDS)
	$(BIN)/yak sim run --seed $(SEED) --seeds $(SEEDS)

.PHONY: mutants
mutants: setup  ## mutation-test the simulator's checks
	$(BIN)/yak sim mutants

.PHONY: wheel
wheel: setup  ## build/wheel/*.whl
	@rm -rf build/wheel build/lib build/bdist.*
	$(BIN)/python -m pip wheel -q --no-deps -w build/wheel .
	@ls build/wheel/*.whl

.PHONY: wheels
wheels: wheel  ## that, and yak-broker-bin (the executable) and pytest-yak; some minutes
	$(BIN)/python packaging/build.py
	$(BIN)/python packaging/wheels.py

.PHONY: install-test
install-test: setup  ## install the built wheels with pip, uv and pipx, and use them; ARGS="WAY ..."
	$(BIN)/python tests/release/try_install.py $(ARGS)

.PHONY: manual
manual: setup  ## build/share: man pages, and completions of bash, zsh and fish
	$(BIN)/python packaging/manual.py

.PHONY: dist
dist: setup  ## build the executable in dist/, as a folder and as one file
	$(BIN)/python packaging/build.py
	$(BIN)/python tests/release/try_executable.py

.PHONY: deb
deb: setup  ## build/deb/*.deb from the executable of `make dist` or `make wheels` (needs dpkg-deb)
	$(BIN)/python packaging/deb.py

.PHONY: image-test
image-test: setup  ## the image's root file system in namespaces, without a container engine (needs root, debootstrap)
	$(BIN)/python tests/release/try_image.py $(ARGS)

.PHONY: bench
bench: setup  ## YAK beside Apache Kafka on one screen, in 15 minutes (needs Java, mvn; YAK alone without)
	@$(BIN)/python benchmarks/bench.py $(ARGS)

.PHONY: bench-kafka
bench-kafka: setup  ## compare YAK with Apache Kafka (needs Java, mvn)
	$(BIN)/python benchmarks/bench_kafka.py $(ARGS)

.PHONY: bench-self
bench-self: setup  ## compare the broker with an earlier commit; ARGS="--commit NAME --rounds N"; fails if it takes 10 % more
	$(BIN)/python benchmarks/bench_self.py $(ARGS)

.PHONY: bench-cores
bench-cores: setup  ## compare yak serve --cores with one broker; ARGS="--cores N --page docs/benchmarks.md"
	$(BIN)/python benchmarks/bench_cores.py $(ARGS)

.PHONY: bench-spark
bench-spark: setup  ## compare YAK's Spark source with Spark's Kafka connector (needs Java, mvn)
	$(BIN)/python benchmarks/bench_spark.py $(ARGS)

.PHONY: picture
picture: setup  ## run the demo, and update the README's picture and output
	$(BIN)/python docs/make_picture.py

.PHONY: screenshots
screenshots: setup  ## screenshots of every screen of yak ui
	$(BIN)/python docs/make_screenshots.py

.PHONY: site
site: setup  ## build/site: the documentation, with its reference from the code
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict -q
	@echo 'build/site/index.html; for its search, serve it: $(BIN)/python -m http.server -d build/site'

.PHONY: clean
clean:  ## delete build output (not .venv, not yak-data)
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find yak commands tui spark tests benchmarks packaging docs -name __pycache__ -type d -prune -exec rm -rf {} +
