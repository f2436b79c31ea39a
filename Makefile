.PHONY: help setup test lint types bench wheel ci
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
	@cd .venv && bin/tprof bench overhead
wheel:  ## build a wheel into dist/
	@python3 -m pip wheel --no-deps -w dist .
ci:     ## all that CI runs
	@.ci/run
