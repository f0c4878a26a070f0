# One verb per habit. `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin
# A file's tests share a loaded model or a daemon, so a file stays in one process; models take memory, so four are enough.
PYTEST := $(BIN)/python -m pytest --numprocesses=auto --maxprocesses=4 --dist=loadfile
# make bench-ttft BACKEND=openvino
OF_BACKEND = $(if $(BACKEND),--backend $(BACKEND))

.DEFAULT_GOAL := help
.PHONY: help setup setup-bench demo test test-long check fmt bench bench-ttft bench-preempt bench-switch bench-wire bench-terminal bench-editor bench-profiles bench-decode soak serve clean

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## make .venv from requirements/ (the first time it compiles llama.cpp: 5 to 10 minutes)
	@$(PYTHON) scripts/setup.py

setup-bench:
	@$(PYTHON) scripts/setup.py --bench

demo: setup ## a failing test, and the wait for its explanation without and with a guess
	@$(BIN)/python -m bench.demo.run

test: setup ## the tests: fakes in tests/, real processes and the packaged model in integration/
	@$(PYTEST) -m "not long" tests integration

test-long: setup ## the same with many more generated examples, and the tests that take minutes
	@$(PYTEST) --hypothesis-profile=long tests integration

check: setup ## lint, format, types, import contracts, links and stray paths
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/check_tree.py

fmt: setup ## format, and repair what the linter can
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

bench: bench-ttft bench-preempt bench-switch bench-wire bench-terminal bench-editor bench-profiles bench-decode ## everything that is measured, into build/bench/

bench-ttft: setup-bench ## first-token times beside a llama-server, as JSON and as a plot (about 20 minutes)
	@$(BIN)/python -m bench.ttft $(OF_BACKEND)

bench-preempt: setup-bench ## how long a request waits for a guess, as JSON and as a plot (at most 20 minutes)
	@$(BIN)/python -m bench.preempt $(OF_BACKEND)

bench-switch: setup-bench ## two clients that ask in turns, beside a llama-server (about 3 minutes)
	@$(BIN)/python -m bench.switch

bench-wire: setup ## what client, front and engine boundary add, on the fake backend (under a minute)
	@$(BIN)/python -m bench.wire

bench-terminal: setup ## a scripted day in the terminal, both daemons and the packaged model (about 15 minutes)
	@$(BIN)/python -m bench.terminal

bench-editor: setup ## scripted sessions in an editor: the real language server, both daemons and the packaged model (about 10 minutes)
	@$(BIN)/python -m bench.editor

bench-profiles: setup-bench ## what the profiles and resident tapes cost, also on a model of 1.4 billion parameters (about 8 minutes)
	@$(BIN)/python -m bench.profiles

bench-decode: setup-bench ## answers with and without drafts, beside two peers, and recorded edits (about 15 minutes)
	@$(BIN)/python -m bench.decode $(OF_BACKEND)

soak: setup ## ten minutes of load on both daemons, with kills: what was lost, doubled, leaked
	@$(BIN)/python -m bench.soak

serve: setup ## serve the packaged model in this terminal (Ctrl-C ends it)
	@$(BIN)/modeld serve

clean: ## remove what was built and cached; .venv stays
	@rm -rf build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
