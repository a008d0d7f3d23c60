# What there is to do with this project. Each target sets up what it needs.

SHELL := /bin/bash
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-engine lint bench bench-large up down clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: ## Show an iterated join answered by a PostgreSQL of its own
	@scripts/setup demo
	@$(BIN)/graphalgo demo

test: ## Run every test that can run here (ARGS="-k walk -x" is passed on)
	@scripts/setup test
	@$(BIN)/python -m pytest $(ARGS)

test-engine: ## Run the tests that need no server
	@scripts/setup test
	@$(BIN)/python -m pytest tests/engine $(ARGS)

lint: ## Check style, format and types
	@scripts/setup lint
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: ## Measure on a small graph, in under three minutes
	@scripts/setup bench
	@$(BIN)/python -m benchmarks $(ARGS)

bench-large: ## Measure on a million nodes and four million edges
	@scripts/setup bench
	@$(BIN)/python -m benchmarks --size large $(ARGS)

up: ## Start the private PostgreSQL and print its DSN
	@scripts/setup demo
	@$(BIN)/graphalgo up

down: ## Stop the private PostgreSQL
	@scripts/setup demo
	@$(BIN)/graphalgo down

clean: ## Remove the private PostgreSQL, the environment and all that was built
	@if [ -x $(BIN)/graphalgo ]; then $(BIN)/graphalgo down --purge; fi
	@if [ -x $(BIN)/python ]; then $(BIN)/python -c "$$DOWN_OTHERS"; fi
	@rm -rf .graphalgo-benchmark
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The tests and the benchmarks leave their servers running for the next run.
define DOWN_OTHERS
from pathlib import Path
from graphalgo.cluster import default_directory, down
down(default_directory(".graphalgo-test"), purge=True, report=print)
down(Path(".graphalgo-benchmark/cluster").absolute(), purge=True, report=print)
endef
export DOWN_OTHERS
