.PHONY: help setup test lint types bench docs lab editable wheel ci
help:   ## show this list
	@grep -E '^[a-z]+: .*##' Makefile
setup:  ## make .venv and install tprof into it
	@scripts/setup
test:  setup ## run the tests on the installed wheel
	@scripts/test
lint:  setup ## ruff, style and format
	@.venv/bin/ruff check . && .venv/bin/ruff format --check .
types:  setup ## mypy --strict on the installed wheel
	@cd .venv && bin/mypy --config-file ../pyproject.toml --python-executable bin/python -p tprof
bench:  setup ## print what a sample costs
	@scripts/bench overhead
docs:   ## build the documentation site into site/
	@scripts/docs
lab:    ## compare with the truth of a processor in a guest (tests/lab/README.md)
	@scripts/lab
editable: ## pip install -e into .venv-editable, found by mypy, pyright and editors too
	@scripts/editable
wheel:  ## build sdist and wheel into dist/, checked as a package index does
	@scripts/wheel
ci:     ## all that CI runs
	@.ci/run
