# `make demo` and `make test` do all their own set-up on a fresh Debian 12 or 13 machine.
SHELL := /bin/bash
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH):/usr/sbin:/sbin
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
# Every worker of pytest reads all tests: what one has compiled, the others need not.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup setup-dev demo test images lint unit whole soak clean lock bench

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what running needs
	@tools/setup run

setup-dev:
	@tools/setup dev

demo: setup ## stand up a rack of stand-in phones and train a network on it
	@tools/demo

test: setup-dev ## run every test; what needs no container runs beside the building of the images
	@$(MAKE) --no-print-directory --jobs 3 lint unit images
	@$(MAKE) --no-print-directory whole

images: setup-dev ## build the stand-ins' images
	@tools/as-root tools/images.py

lint: setup-dev ## ruff, type checker, ansible-lint
	ruff check .
	ruff format --check .
	mypy
	ANSIBLE_INVENTORY=inventory/standin.yml ansible-lint site.yml playbooks roles plugins molecule benchmarks

unit: setup-dev ## the fast tests, no container; four at once, since many of them wait
	pytest -q -n 4 --durations 10 -m "not standin and not lab and not soak and not root"

whole: setup-dev ## the tests on stand-in phones, and what else needs root: those of the provisioned rack beside all others
	tools/as-root pytest -q -n 2 --dist loadfile --no-loadscope-reorder --durations 40 -m "(standin or lab or root) and not soak"

soak: setup-dev ## the long tests, in the background: docs/soak.md tells what they found
	@tools/as-root tools/soak.py start

bench: setup-dev ## the figures of docs/figures.md, on shaped links
	tools/bench

clean: ## remove containers, images, networks, namespaces and what the stand-in rack kept
	@tools/clean

lock: setup-dev ## renew the locked dependencies
	.tools/bin/uv pip compile -q --universal --python-version 3.12 --generate-hashes --no-emit-index-url --no-header pyproject.toml -o requirements.lock
	.tools/bin/uv pip compile -q --universal --python-version 3.12 --generate-hashes --no-emit-index-url --no-header --extra dev pyproject.toml -o requirements-dev.lock
