# Two commands on a fresh machine: `make demo` and `make test`. Everything they need they install, into .venv and, as root, from Debian.
.PHONY: demo test test-slow test-docs test-vm test-doors drill bench gpu check setup clean
export OMP_NUM_THREADS ?= 1
export OMP_WAIT_POLICY ?= PASSIVE
export TOKENIZERS_PARALLELISM ?= false
BIN := .venv/bin
# The kinds of devices that tests play on.
TESTED := scripts/farm browser desktop phone pool tests

demo:  ## train the small policy on browsers and made-to-order apps; the report is runs/demo/report.html
	@scripts/setup demo
	$(BIN)/guiagent demo

test: setup check  ## everything but slow tests, the commands of docs/, virtual machines, the long drills and the benchmarks
	@$(TESTED) || $(MISSING)
	@scripts/osworld
	@scripts/sites data forum money shop tracker wiki
	$(BIN)/python -m pytest -n 2 --dist loadfile || $(BIN)/python -m tests.support.again $$?

test-slow: setup  ## kills, several processes, Ray clusters and whole recipes: tests of ten seconds or more
	@$(TESTED) || $(MISSING)
	@scripts/qwen
	@scripts/sites data forum money shop tracker wiki
	$(BIN)/python -m pytest -m "slow and not drill and not vllm" -n 2 --dist loadfile || $(BIN)/python -m tests.support.again $$?

test-docs: setup  ## what the pages of docs/ tell a reader to run, page by page; README's commands are in `make test`
	@$(TESTED) || $(MISSING)
	@scripts/sites data forum money shop tracker wiki
	$(BIN)/python -m pytest -m "docs and not drill and not vllm" -n 2 --dist loadgroup || $(BIN)/python -m tests.support.again $$?

test-vm: setup  ## the tests of virtual machines; makes their guest image first (root, minutes)
	@scripts/farm desktop vm || $(MISSING)
	$(BIN)/guiagent image build desktop || $(MISSING)
	$(BIN)/python -m pytest -m "vm and not drill" || $(BIN)/python -m tests.support.again $$?

test-doors: setup  ## the doors, each with the packages of others that come in by it, in environments of their own
	@scripts/farm browser desktop phone doors || $(MISSING)
	@scripts/doors
	$(BIN)/python -m pytest -m doors || $(BIN)/python -m tests.support.again $$?

drill: setup  ## the long fault drills, counted, and vLLM where scripts/vllm has made its environment
	@scripts/farm browser desktop phone vm images pool tests || $(MISSING)
	@scripts/qwen
	$(BIN)/python -m pytest -m "drill or vllm" -o timeout=3600 -o faulthandler_timeout=3660
	$(BIN)/python -m tests.drills all

check: setup  ## style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup  ## figures beside peers; runs/bench/figures.md
	@scripts/farm browser desktop phone vm pool peers || $(MISSING)
	$(BIN)/python -m tests.bench

gpu:  ## figures of one GPU in one call of ten minutes, without network; runs/bench/gpu.md
	@scripts/gpu

setup:
	@scripts/setup test

clean:
	rm -rf .venv .venv-door-* .venv-osworld .venv-peers .venv-qwen .venv-sites .venv-trl .venv-vllm .wheels .gpu-site runs

# Tests of what is missing are skipped, and counted by reason at the end; on a CI machine that is a failure.
MISSING = [ -z "$$CI" ]
