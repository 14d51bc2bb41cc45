# The commands of the project; `make` prints them. CI calls the same ones (.ci/run).
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The tests start many programs, and each would compile all of its modules again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
UV ?= uv

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

PLATFORMS ?= linux/amd64,linux/arm64

SEEDS ?= 1000
FROM ?= 0

# What pip installs from is written from uv.lock, hashes and all.
EXPORT := $(BIN)/uv export --quiet --locked --offline --no-emit-workspace
REQUIREMENTS := $(EXPORT) --no-annotate --no-header

# Where Cosmic Ray is, which no other target needs.
MUTANTS := build/mutants/site

# Where Playwright and axe are, which no other target needs.
BROWSER := build/browser/site

# Where MkDocs is, which `make site` needs and nothing else.
MKDOCS := build/mkdocs

# What pyproject.toml says to pytest, without leaving out tests/real.
REAL := $(BIN)/pytest -o addopts="--strict-markers --strict-config --import-mode=importlib -ra" tests/real

KIND_KUBECONFIG := kubeconfigs/kind
KIND_CONTEXTS := kind-manager,kind-worker-1,kind-worker-2,kind-worker-3

##@ Every day

.PHONY: help
help: ## Print this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "%s%s\n", gap, substr($$0, 5); gap = "\n" } \
	  /^[a-z-]+:.*## / { printf "  make %-12s  %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: check
check: $(READY) ## The lock, format, lint, types and the direction of imports; changes nothing
	@$(BIN)/uv lock --check --offline --quiet
	@$(BIN)/ruff format --check --output-format concise .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

.PHONY: format
format: $(READY) ## Format the code and fix what ruff can fix
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

.PHONY: docs
docs: $(READY) ## Write the tables of docs/settings.md, docs/why.md and docs/compatibility.md, the picture of top and the schema of the chart again
	@$(BIN)/python -m multikueue.settings.describe docs/settings.md
	@$(BIN)/python -m tests.answers.page docs/why.md
	@$(BIN)/python -m tests.project.switches
	@$(BIN)/python -m tests.console.terminal.picture docs/top.svg
	@$(BIN)/python -m release.chart deploy/chart

.PHONY: site
site: $(MKDOCS)/.ready ## The documentation as a site with search into build/site; a dead link is an error
	@PYTHONPATH=$(MKDOCS) $(BIN)/python -m release.site

.PHONY: test
test: $(READY) ## The fast tests: Python only, no cluster (ROOM="quota parity": those of some rooms)
	@$(BIN)/pytest -n auto --dist worksteal $(addprefix tests/,$(ROOM))

.PHONY: test-console
test-console: $(BROWSER)/.ready ## The console's pages in a real Chromium (PICTURES=1: write docs/console/ again)
	@PYTHONPATH=$(BROWSER) MULTIKUEUE_TEST_WRITES_PICTURES=$(PICTURES) $(subst tests/real,tests/console/browser,$(REAL))

.PHONY: film
film: $(BROWSER)/.ready ## The film of `multikueue demo --web` into docs/console/demo.webp, which README shows (3 minutes)
	@PYTHONPATH=$(BROWSER) $(BIN)/python -m tests.console.browser.film docs/console/demo.webp

.PHONY: bench-console
bench-console: $(BROWSER)/.ready ## Memory of the console at 50,000 workloads, and how soon pages show a change (3 minutes)
	@PYTHONPATH=$(BROWSER) $(BIN)/python -m tests.console.browser.figures $(ARGS)

.PHONY: postgresql
postgresql: ## Install PostgreSQL from Debian's packages, for the tests of the history (root; without it they are skipped)
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || { apt-get update && apt-get install --yes --no-install-recommends postgresql; }

.PHONY: test-sandbox
test-sandbox: $(READY) ## The scenarios of the real suite on simulated clusters: Python only
	@MULTIKUEUE_TEST_BED=sandbox $(REAL)

.PHONY: simulate
simulate: $(READY) ## Lives full of faults on virtual time: SEEDS of them, FROM a seed on
	@$(BIN)/multikueue simulate-faults --seeds $(SEEDS) --from $(FROM)

.PHONY: mutate
mutate: $(MUTANTS)/.ready ## Guards taken out one by one: which does no test miss? (ROOM=dispatch: all of a room; hours)
	@PYTHONPATH=$(MUTANTS) nice -n 19 $(BIN)/python -m tests.mutation $(ROOM) $(ARGS)

.PHONY: sharing
sharing: $(READY) ## Ways to share GPUs among users, compared on virtual time (ARGS="..." for options)
	@$(BIN)/python -m benchmarks sharing $(ARGS)

.PHONY: mixes
mixes: $(READY) ## Strategies compared on jobs as in published traces, on virtual time (ARGS="--docs" for the page; an hour)
	@$(BIN)/python -m benchmarks mixes $(ARGS)

.PHONY: parity
parity: DIR ?= tests/parity/stories
parity: $(READY) $(if $(FRESH),testbed) ## Stories recorded from real Kueue, replayed: ours or those in DIR, or FRESH=300 (SEED=7) are drawn
	@$(BIN)/python -m tests.parity $(if $(FRESH),--fresh $(FRESH) $(if $(SEED),--seed $(SEED)),$(DIR)) $(ARGS)

.PHONY: demo
demo: $(READY) ## A manager and three simulated workers in one process, with jobs and drama (ARGS="..." for options)
	@$(BIN)/multikueue demo $(ARGS)

.PHONY: run
run: $(READY) ## Run the manager against your kubeconfig (ARGS="..." for options)
	@$(BIN)/multikueue run $(ARGS)

##@ On real control planes (needs Go, no Docker)

.PHONY: testbed
testbed: $(READY) ## Build etcd, Kubernetes, Kueue and OCM once (7 to 23 minutes); KUEUE=0.16.2: another release
	@$(BIN)/python -m testbed install

.PHONY: test-real
test-real: testbed ## The tests on real API servers and Kueue workers (KUEUE=0.18.2: of another release)
	@$(REAL)
	@$(BIN)/pytest --server real tests/contract

.PHONY: tutorials
tutorials: testbed ## Write the outputs in docs/tutorial-*.md again, by running their commands
	@MULTIKUEUE_TEST_WRITES_TUTORIALS=1 $(REAL)/test_tutorials.py

.PHONY: clusters
clusters: testbed ## A manager cluster and three real Kueue workers on this machine until Ctrl-C (ARGS="..." for options)
	@$(BIN)/python -m testbed up $(ARGS)

.PHONY: hostile
hostile: testbed ## Hostile objects and answers beside innocent jobs, and what became of each (ARGS="..." for options)
	@$(BIN)/python -m testbed hostile $(ARGS)

.PHONY: chaos
chaos: testbed ## Three replicas under drawn faults for 30 minutes, and what must not happen (ARGS="--minutes 3 --seed 7")
	@$(BIN)/python -m testbed chaos $(ARGS)

.PHONY: bench
bench: testbed ## Measure ours beside Kueue's own manager, the first table of docs/figures.md, then beside one without limits (15 minutes)
	@$(BIN)/python -m benchmarks $(or $(ARGS),--hold --peer-jobs 60 --rounds 2 --docs)
	@$(if $(ARGS),,$(BIN)/python -m benchmarks work lifted waiting)

.PHONY: bench-full
bench-full: testbed ## All kinds of work and sizes, into docs/figures.md (hours)
	@$(BIN)/python -m benchmarks work --full --docs $(ARGS)

##@ On kind clusters (needs Docker, kind, kubectl)

.PHONY: kind-up
kind-up: $(READY) ## A manager and three workers with Kueue, registered
	@kind-configs/up.sh $(KIND_KUBECONFIG)

.PHONY: kind-down
kind-down: ## Delete these four clusters
	@kind-configs/down.sh $(KIND_KUBECONFIG)

.PHONY: test-kind
test-kind: $(READY) ## The real tests that need no testbed, on the kind clusters
	@KUBECONFIG=$(KIND_KUBECONFIG) MULTIKUEUE_TEST_CONTEXTS=$(KIND_CONTEXTS) $(REAL)

##@ House

.PHONY: lock
lock: $(READY) ## Write uv.lock and requirements/ again after a change of pyproject.toml (ARGS=--upgrade for newer versions)
	@$(BIN)/uv lock --quiet $(ARGS)
	@$(REQUIREMENTS) --only-group build --output-file requirements/build.txt
	@$(REQUIREMENTS) --no-dev --extra fast --output-file requirements/image.txt
	@$(REQUIREMENTS) --no-dev --package multikueue-console --extra postgresql --output-file requirements/console.txt
	@$(REQUIREMENTS) --only-group mutation --output-file requirements/mutation.txt
	@$(REQUIREMENTS) --only-group browser --output-file requirements/browser.txt
	@$(REQUIREMENTS) --only-group site --output-file requirements/site.txt
	@$(REQUIREMENTS) --all-packages --all-extras --all-groups --no-group mutation --no-group browser --no-group site --output-file requirements/dev.txt

.PHONY: sbom
sbom: $(READY) ## A bill of materials (CycloneDX) of what the image has beside Python: dist/multikueue.cdx.json
	@mkdir -p dist
	@$(EXPORT) --no-dev --extra fast --format cyclonedx1.5 --output-file dist/multikueue.cdx.json

.PHONY: notes
notes: $(READY) ## The files of changes/ as a section of CHANGELOG.md (VERSION=0.1.0), to be committed before a release
	@$(BIN)/python -m towncrier build --yes --version $(VERSION)

.PHONY: release
release: $(READY) ## Wheels, chart, CRDs, notes and checksums into dist/ (VERSION=0.1.0; URL=, DOWNLOADS=, SIGNING_KEY=: docs/release.md)
	@$(BIN)/python -m release $(VERSION) $(if $(URL),--url $(URL)) $(if $(DOWNLOADS),--downloads $(DOWNLOADS)) $(if $(SIGNING_KEY),--key $(SIGNING_KEY))

.PHONY: image
image: ## The images as files into dist/, for amd64 and arm64 (needs Docker with buildx; VERSION=0.1.0)
	@mkdir -p dist
	@set -e; for name in multikueue multikueue-console; do \
	  docker buildx build --platform $(PLATFORMS) $(if $(PYTHON_IMAGE),--build-arg PYTHON=$(PYTHON_IMAGE)) \
	    --build-arg SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) --provenance=false \
	    $$([ $$name = multikueue ] || echo --target console) \
	    --output type=oci,dest=dist/$$name-$(VERSION)-image.tar,rewrite-timestamp=true .; \
	done

.PHONY: clean
clean: ## Remove the environment, the caches and what was built here
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis htmlcov .coverage
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# From the lock, by uv in seconds or else by venv and pip: either way nothing that has another hash, and with uv nothing that
# is not in the lock any more. An explicit PYTHON holds for both.
$(READY): pyproject.toml console/pyproject.toml fakekube/pyproject.toml simulator/pyproject.toml requirements/dev.txt
	@echo "Installing into $(VENV)"
	@if $(UV) --version >/dev/null 2>&1; then \
	  $(UV) venv --quiet --allow-existing $(if $(filter file,$(origin PYTHON)),,--python "$(PYTHON)") $(VENV) && \
	  install="$(UV) pip install --quiet --python $(BIN)/python"; \
	  sync="$(UV) pip sync --quiet --python $(BIN)/python --require-hashes"; \
	else \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer, please: make PYTHON=...")' && \
	  $(PYTHON) -m venv $(VENV) && \
	  install="$(BIN)/python -m pip install --quiet"; \
	  sync="$$install --require-hashes --requirement"; \
	fi && \
	$$sync requirements/dev.txt && \
	$$install --no-deps --no-build-isolation --editable . --editable console --editable fakekube --editable simulator
	@touch $@

# Chromium comes from the system where it has one, else from its package manager, else from Playwright.
$(BROWSER)/.ready: $(READY) requirements/browser.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --target $(BROWSER) --no-deps --require-hashes -r requirements/browser.txt
	@command -v chromium >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -qq --no-install-recommends chromium >/dev/null; } || \
	  PYTHONPATH=$(BROWSER) $(BIN)/python -m playwright install --with-deps chromium-headless-shell
	@touch $@

$(MUTANTS)/.ready: $(READY) requirements/mutation.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --target $(MUTANTS) --no-deps --require-hashes -r requirements/mutation.txt
	@touch $@

$(MKDOCS)/.ready: $(READY) requirements/site.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --target $(MKDOCS) --no-deps --require-hashes -r requirements/site.txt
	@touch $@
