# `make demo` and `make test` need nothing but Python 3.11 or newer: each sets up what it needs.
# With COVERAGE=1, `make test` measures the coverage of branches as well, and insists on the bound.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-all rest needs-or-long beside peers windows portable clone conformance faults fuzz soak check workflows types format docs bench dist release clean

# Tests start hundreds of processes. Without bytecode, each of them compiles the package anew.
unexport PYTHONDONTWRITEBYTECODE
# Many tests wait for a process or a time limit: so there are three workers for two processors.
WORKERS ?= $(shell echo $$(( ($$(getconf _NPROCESSORS_ONLN) * 3 + 1) / 2 )))

# Where it shows how bytes move between processes, and how files are read.
PORTABLE := tests/system tests/end_to_end tests/client/test_leaving.py \
	tests/client/test_misbehaviour.py tests/registry/test_files.py \
	tests/transports/test_process.py tests/transports/test_stdio_processes.py

help:  ## Say what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# A stamp for each extra that has been installed, made anew when pyproject.toml changes.
$(VENV)/.%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

demo: $(VENV)/.cli  ## Show two servers answering a scripted session on stdio
	@$(BIN)/python -m docs.examples.demo

test: $(VENV)/.test  ## Run all tests that need nothing but Python
	@$(BIN)/python -m pytest -n $(WORKERS) -m "not needs and not long" $(if $(COVERAGE),--cov)

test-all: rest  ## Run all tests, those that need other programs as well
	@$(MAKE) --no-print-directory test

rest: $(VENV)/.test $(VENV)/.release $(VENV)/.cli peers windows docs  ## Run what `make test` leaves out: it needs other programs, or long
	@$(MAKE) --no-print-directory -j2 needs-or-long beside

needs-or-long: $(VENV)/.test
	@$(BIN)/python -m pytest -n $(WORKERS) -m "needs or long"

# What can run while those tests wait, as they do half of the time. What only computes gives way to them.
beside: $(VENV)/.test
	@nice $(BIN)/python -m pytest -n0 -m "hypothesis and not needs" --hypothesis-profile explore
	@nice $(BIN)/python -m tests.fuzz.run --runs 500
	@$(MAKE) --no-print-directory demo clone conformance
	@$(MAKE) --no-print-directory WORKERS=1 portable

peers: $(VENV)/.test  ## Install the npm packages, FastMCP, the frameworks, uv and the fuzzer that tests need, below .conformance
	@$(BIN)/python -m tests.interop.packages

windows: $(VENV)/.test  ## Install Python for Windows below .conformance, to run under Wine
	@$(BIN)/python -m tests.interop.windows

portable: $(VENV)/.test  ## Run tests as where nothing can be polled, opened anew or walked
	@TRIO_MCP_WITHOUT=polling,reopening,walking $(BIN)/python -m pytest -n $(WORKERS) \
		-m "not needs and not long" $(PORTABLE)

clone: $(VENV)/.test  ## Follow the README in a clean clone, with a fresh environment
	@$(BIN)/python -m pytest -n0 tests/docs/test_clean_clone.py

conformance: peers  ## Run the official conformance suite against a server, a client and an authorization server
	@$(BIN)/python -m tests.conformance.run --record docs/measured/conformance.json
	@$(BIN)/python -m tests.conformance.run --fleet
	@$(BIN)/python -m tests.conformance.run --through-proxy

faults: $(VENV)/.test  ## Count what clients see when instances and their store fail
	@$(BIN)/python -m tests.faults.run --record docs/measured/faults.json

# Seconds that `make fuzz` and `make soak` spend: TIME=3600 for an hour. Or CALLS=10000000, of a soak.
TIME ?= 600

fuzz: $(VENV)/.test  ## Fuzz every entrance, led by coverage, for TIME seconds; what is found is kept
	@$(BIN)/python -m tests.fuzz.run --time $(TIME)

soak: $(VENV)/.test  ## Call servers for TIME seconds, or CALLS times, and see whether they grow
	@$(BIN)/python -m tests.soak.run $(if $(CALLS),--calls $(CALLS),--time $(TIME)) \
		--record docs/measured/soak.json

check: $(VENV)/.lint $(VENV)/.docs  ## Check format, lint, spelling, words, workflows, types and documentation
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/python -m tests.docs.words
	@$(BIN)/codespell README.md .github docs trio_mcp
	@$(BIN)/proselint --config .proselintrc.json check README.md \
		$$(find .github docs -name '*.md' -not -path 'docs/_build/*')
	@$(MAKE) --no-print-directory workflows
	@$(MAKE) --no-print-directory -j2 docs types types-on-win32 types-on-darwin

# With the schemas and rules that these packages have in them: nothing is fetched.
SCHEMA = $(BIN)/check-jsonschema --builtin-schema vendor
workflows: $(VENV)/.lint
	@$(SCHEMA).github-workflows .github/workflows/*.yml
	@$(SCHEMA).dependabot .github/dependabot.yml
	@$(SCHEMA).github-issue-config .github/ISSUE_TEMPLATE/config.yml
	@$(SCHEMA).github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	@$(BIN)/zizmor --quiet --no-progress --offline .github

types: $(VENV)/.lint
	@$(BIN)/mypy

types-on-%: $(VENV)/.lint
	@$(BIN)/mypy --platform $* --cache-dir .mypy_cache/$* trio_mcp

format: $(VENV)/.lint  ## Put the code in order
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(VENV)/.docs  ## Build the documentation site into docs/_build
	@rm -rf docs/_build
	@$(BIN)/python -m sphinx --quiet --fresh-env --nitpicky --fail-on-warning --keep-going \
		docs docs/_build

# One benchmark and its options: ARGS="company --rounds 5". Nothing is recorded then.
bench: $(VENV)/.bench  ## Measure everything beside the peers and record it, or what ARGS names
	@$(BIN)/python -m benchmarks$(if $(ARGS),.$(ARGS), --record docs/measured/benchmarks.json)

dist: $(VENV)/.release  ## Build the wheel and the sources of the last commit into dist, twice, and check them
	@$(BIN)/python -m tests.release.build

release: $(VENV)/.release  ## Check, test, build and tag VERSION=0.1.0: everything up to the upload
	@$(BIN)/python -m tests.release.tag $(VERSION)

clean:  ## Remove what was built
	rm -rf $(VENV) build dist docs/_build docs/reference/classes benchmarks/results .conformance .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis
