# Two commands on a fresh machine: `make demo` and `make test`. Everything they need they install into .venv.
.PHONY: demo test drill bench setup check clean
export OMP_NUM_THREADS ?= 1
export OMP_WAIT_POLICY ?= PASSIVE
export TOKENIZERS_PARALLELISM ?= false
BIN := .venv/bin

demo: setup  ## train the small policy on a farm of browsers; the report is runs/demo/report.html
	$(BIN)/guiagent demo

test: setup check  ## everything but the long drills and the benchmarks
	@scripts/farm
	@scripts/osworld
	$(BIN)/python -m pytest -n 2 --dist loadfile

drill: setup  ## the long fault drills, and vLLM where scripts/vllm has made its environment
	@scripts/farm
	$(BIN)/python -m pytest -m "drill or vllm"

check: setup  ## style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup  ## figures beside peers; runs/bench/results.json
	$(BIN)/python -m tests.bench

setup:
	@scripts/setup

clean:
	rm -rf .venv .venv-osworld .venv-peers .venv-trl .venv-vllm runs
