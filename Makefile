# make demo   install, run the main job at miniature scale, show its verdict and figures
# make test   install, run every test but the slow ones; those of the engine vllm in an environment of their own
# make check  lint, format, types
# make pages  write docs/tricks.md and grid_specs/schema.json again, after a new trick, knob, key or recipe
# make bench  ours beside peers (step, sweep, loading, Slurm; installs them), coverage of intervals, a hundred kills
# make mutation   does a test notice every single-point change of the tricks and of the step? (minutes)

PYTHON ?= python3
BIN := .venv/bin
SPEC ?= grid_specs/clip_higher.yaml
TEST_VLLM := test ! -e .venv-vllm/installed || .venv-vllm/bin/python -m pytest -m vllm tests/vllm
export OMP_NUM_THREADS := 1
export MLFLOW_DISABLE_TELEMETRY := true

.PHONY: demo test environments test-vllm check pages slow bench mutation clean

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: .venv/installed
	$(BIN)/python -m harness sweep $(SPEC)

# Two processes for two cores, and one for the tests of Slurm, which mostly wait (tests/conftest.py).
test: environments
	$(TEST_VLLM)
	$(BIN)/python -m pytest -n 3

environments:
	$(MAKE) --jobs 2 .venv/installed .venv-vllm/installed

# Where vLLM cannot be installed (another Python than 3.11, another machine) its tests are left out, which is said.
.venv-vllm/installed: constraints-vllm.txt tests/vllm/install.sh
	bash tests/vllm/install.sh .venv-vllm $(PYTHON) && touch $@ || echo "SKIPPED: the environment of the engine vllm"

test-vllm: .venv-vllm/installed
	$(TEST_VLLM)

slow: .venv/installed
	$(BIN)/python -m pytest -m slow

check: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

pages: .venv/installed
	$(BIN)/python -m harness tricks --markdown > docs/tricks.md
	$(BIN)/python -m harness schema > grid_specs/schema.json

bench: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python -m bench.against_trl
	$(BIN)/python -m bench.step
	$(BIN)/python -m bench.sweep
	$(BIN)/python -m bench.load
	$(BIN)/python -m bench.coverage
	$(BIN)/python -m bench.sequential
	$(BIN)/python -m bench.slurm
	$(BIN)/python -m bench.chaos

mutation: .venv/installed
	$(BIN)/python -m bench.mutation

clean:
	rm -rf .venv .venv-vllm build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
