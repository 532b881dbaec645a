# Every target does its own set-up.  What `make` alone prints is the list below.
.DEFAULT_GOAL := help
SHELL := /bin/bash
BIN := .venv/bin
STAMP := .venv/.complete
# Experiments in Python, which their names do not say.
RUNNERS = $$(grep -ls -d skip "^.!.*python3" experiments/*/* experiments/bench/*/* experiments/energy/*/* | grep -v "\.py$$")
# What `make tune` and `make study` tune.
APPLICATION := apps/social-network
# True where a Docker Engine answers.
ENGINE = docker version > /dev/null 2>&1
# Most Docker tests want compose 2, also where 1.29 is there; it is made with Go.
COMPOSE_2 = { ! command -v go > /dev/null || scripts/compose --v2; }

.PHONY: help
help:  ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1 \t\2/p' Makefile | expand -t 24

.PHONY: setup
setup: $(STAMP)  ## .venv with the pinned dependencies (quick when nothing changed)

$(STAMP): requirements-dev.txt requirements-uv.txt pyproject.toml scripts/setup
	@rm -f $@
	@PYTHON="$(PYTHON)" scripts/setup
	@touch $@

.PHONY: engine
engine:  ## a Docker Engine on a bare Debian machine (root)
	@scripts/engine

.PHONY: compose
compose:  ## a compose command where there is none
	@scripts/compose

.PHONY: images
images:  ## every image that a study needs
	@scripts/images

.PHONY: image-tailor
image-tailor:  ## the image of Tailor itself
	@scripts/images tailor/tailor:1

# Without an engine nothing is built: tailor itself says what is missing and what to do.
.PHONY: prepare
prepare: setup
	@if $(ENGINE); then $(COMPOSE_2) && scripts/compose && scripts/images; fi

# Only what studies of the application run: to build the other images takes minutes where no registry answers.
.PHONY: prepare-application
prepare-application: setup
	@if $(ENGINE); then scripts/compose && scripts/images --for $(APPLICATION); fi

.PHONY: tune
tune: prepare-application  ## a quick study of the social network, with its verdict and report
	$(BIN)/tailor tune $(APPLICATION) --quick

.PHONY: plan
plan: APPLICATION := apps/key-value
plan: prepare-application  ## measures the key-value store, and plans machines for a need of it
	$(BIN)/tailor plan examples/need.yaml --measure $(APPLICATION) --quick

.PHONY: energy
energy: APPLICATION := apps/key-value
energy: prepare-application  ## measures what a request to the key-value store costs, in cycles and joules
	$(BIN)/tailor energy $(APPLICATION) --quick

.PHONY: study
study: prepare-application  ## a study of the social network by the full protocol
	$(BIN)/tailor tune $(APPLICATION)

.PHONY: test
test: prepare  ## all tests; those that need a Docker Engine are skipped, saying so, where none answers
	@if command -v go > /dev/null; then cd apps && TAILOR_TEST_DOCKER=$$($(ENGINE) && echo 1) go test ./...; else echo "go is missing: the Go tests did not run"; fi
	$(BIN)/pytest -rs -n auto -m "not docker and not network"
	$(BIN)/pytest -rsR -n 2 --dist loadfile -m "docker and not alone and not network"
	$(BIN)/pytest -rsR -m "alone or network"

.PHONY: check
check: setup  ## formatting, linting, types, layers
	$(BIN)/ruff format --check . scripts/images scripts/architecture $(RUNNERS)
	$(BIN)/ruff check . scripts/images scripts/architecture $(RUNNERS)
	$(BIN)/mypy
	$(BIN)/mypy --scripts-are-modules scripts/images
	$(BIN)/mypy --scripts-are-modules scripts/architecture
	@for file in $(RUNNERS); do MYPYPATH=$${file%/*} $(BIN)/mypy --no-error-summary $$file || exit 1; done
	$(BIN)/lint-imports --no-cache
	@for file in $$(grep -lE '^#!/bin/(ba)?sh' .ci/run scripts/* apps/common/images/*/*.sh); do bash -n $$file || exit 1; done
	@if command -v go > /dev/null; then \
		unformatted=$$(gofmt -l apps) && { test -z "$$unformatted" || { echo "gofmt: $$unformatted"; exit 1; }; } && \
		cd apps && go vet ./...; \
	else echo "go is missing: the Go code was not checked"; fi

.PHONY: requirements
requirements: setup  ## pin the dependencies of pyproject.toml anew, with their hashes
	echo uv | $(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header - -o requirements-uv.txt
	$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url pyproject.toml -o requirements.txt
	$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --extra dev pyproject.toml -o requirements-dev.txt

.PHONY: clean
clean:  ## remove what studies left running, caches and .venv (images and results stay)
	@if test -x $(BIN)/tailor && $(ENGINE); then $(BIN)/tailor clean; fi
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
