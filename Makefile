# Every command of this repository. The two that matter: `make demo` and `make test`. Both do all set-up.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Hundreds of processes import the same modules: to be compiled once, not by each.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo demo-lab test test-matrix test-gpu lint format bench bench-metering bench-frontend bench-gate bench-parking bench-replay bench-broker bench-latency bench-hub soak check screenshots clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

demo: ## JupyterHub with two people, simulated GPUs and training; prints address and passwords (ARGS="--tour hub" for its story)
	@scripts/prepare demo
	@jupyter gpushare demo --hub --no-browser $(ARGS)

demo-lab: ## JupyterLab alone with a broker and training, kept in build/demo and opened in your browser
	@scripts/prepare demo-lab
	@jupyter gpushare demo --lab-dir build/demo $(ARGS)

test: ## Every test that needs no GPU: unit, server, browser, hub, mutations (PARTS="unit hub" for some)
	@scripts/prepare test
	@CHROMIUM="$$(scripts/find-chromium)" python scripts/run_tests.py $(PARTS)

test-matrix: ## The same behaviour on what an installation may choose: JupyterHub 5.5, PostgreSQL, Prometheus (PARTS="hub-5.5")
	@scripts/prepare test
	@scripts/prepare matrix
	python -m scripts.run_matrix $(PARTS)

test-gpu: ## The tests that need a real NVIDIA GPU
	@scripts/prepare gpu
	@mkdir -p build
	@GPUSHARE_GPU_RESULTS="$${GPUSHARE_GPU_RESULTS:-$(CURDIR)/build/gpu.json}" pytest tests/gpu -m gpu

lint: ## Style, types, layers, domain rules
	@scripts/prepare lint
	ruff check .
	ruff format --check .
	mypy --strict jupyter_gpushare tests scripts benchmarks
	lint-imports
	python scripts/domain_lint.py
	cd labextension && jlpm lint:check

format: ## Write the style that `make lint` asks for
	@scripts/prepare lint
	ruff check --fix .
	ruff format .
	cd labextension && jlpm lint

bench: bench-metering bench-frontend bench-gate ## All benchmarks that need no GPU

bench-metering: ## What watching costs, beside the other extensions
	@scripts/prepare bench
	build/bench/bin/python -m benchmarks.quantity
	build/bench/bin/python -m benchmarks.metering $(ARGS)

bench-frontend: ## What JupyterLab's start-up costs, beside the other extensions
	@scripts/prepare bench
	CHROMIUM="$$(scripts/find-chromium)" build/bench/bin/python -m benchmarks.frontend $(ARGS)

bench-gate: ## What the gate adds to each execute, and what it saves in a browser
	@scripts/prepare bench
	CHROMIUM="$$(scripts/find-chromium)" build/bench/bin/python -m benchmarks.gate $(ARGS)

bench-parking: ## What parking takes on this machine's GPU, beside the bare driver calls (ARGS="--simulated")
	@scripts/prepare gpu
	python -m benchmarks.parking $(ARGS)

bench-replay: ## A month of notebooks under each policy, Monday at nine, a class (ARGS="--trace FILE ..." for a real trace)
	@scripts/prepare test
	python -m benchmarks.replay $(ARGS)
	python -m benchmarks.crowds

bench-broker: ## What 10,000 leases cost the broker: decisions, API, memory, coming back after a kill
	@scripts/prepare test
	python -m benchmarks.broker $(ARGS)

bench-latency: ## From an idle notebook to training on its share, and from a cell back to its result
	@scripts/prepare test
	python -m benchmarks.latency $(ARGS)

bench-hub: ## What a hub pays for GPU shares: a server's start, the overview's page, a round of culling, with and without us
	@scripts/prepare test
	@scripts/prepare matrix
	python -m benchmarks.hub $(ARGS)

soak: ## Thousands of cycles, races and kills, each part up to 30 minutes, resumable (ARGS="race --minutes 5 --seed 7")
	@scripts/prepare test
	@scripts/prepare matrix
	python -m scripts.soak $(ARGS)

check: lint test bench soak ## All of it

screenshots: ## Take docs/images anew from this build
	@scripts/prepare test
	CHROMIUM="$$(scripts/find-chromium)" python scripts/screenshots.py

clean: ## Remove everything that was built or installed here
	rm -rf .venv build dist labextension/lib labextension/node_modules labextension/tsconfig.tsbuildinfo \
		jupyter_gpushare/labextension tests/hub/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis
