# Everything goes through .venv/bin/python -m: console scripts break in long paths and in paths with spaces.
PYTHON ?= python3
BOOTSTRAP = $(PYTHON) deploy/bootstrap.py
VENV = .venv/bin/python
PYTEST = $(VENV) -m pytest
# Most tests wait more than they work, so two run at a time; a real model or browser is had once, and needs the machine.
ALONE = model or browser

# What production asks for, made up for the length of a check.
PRODUCTION = NEHIR_ENV=production DATABASE_URL=postgres://nehir@localhost/nehir REDIS_URL=redis://localhost \
	NEHIR_ALLOWED_HOSTS=nehir.example NEHIR_ORIGINS=https://nehir.example NEHIR_TRUSTED_PROXIES=192.0.2.1
RANDOM_SECRET = $$($(VENV) -c 'import secrets; print(secrets.token_urlsafe(48))')

.PHONY: help run test check format lock clean clean-all

help:
	@echo "make run         install what is missing and start everything (ENGINE=fake: without a model)"
	@echo "make test        run the tests (ARGS='...' goes to pytest)"
	@echo "make check       style, types, layers, migrations, production settings, translations"
	@echo "make format      bring the source into shape"
	@echo "make lock        write deploy/lock/ anew from requirements.txt"
	@echo "make clean       remove .venv and caches; clean-all: the state in var/ too"
	@echo
	@echo "NEHIR_HOST, NEHIR_PORT, NEHIR_VAR, NEHIR_MODELS and PYTHON choose address, state folder, model store, Python."

run:
	@$(BOOTSTRAP) run

test:
	@$(BOOTSTRAP) install test
	@echo "On SQLite:"
	@$(PYTEST) -n 2 --dist loadfile -m "not ($(ALONE))" $(ARGS)
	@echo "With the real model and a real browser:"
	@$(PYTEST) -m "$(ALONE)" $(ARGS)
	@echo "On PostgreSQL, all that touches the database:"
	@NEHIR_TEST_DATABASE=postgres $(PYTEST) -n 2 --dist loadfile -m "database and not ($(ALONE))" $(ARGS)

check:
	@$(BOOTSTRAP) install check
	@mkdir -p build
	$(VENV) -m ruff check .
	$(VENV) -m ruff format --check .
	$(VENV) -m mypy
	PYTHONPATH=platform:. $(VENV) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'
	$(VENV) manage.py makemigrations --check --dry-run
	$(VENV) manage.py spectacular --validate --fail-on-warn --file build/openapi.yaml
	@echo "manage.py check --deploy, with production's settings"
	@$(PRODUCTION) NEHIR_SECRET_KEY="$(RANDOM_SECRET)" NEHIR_KEY_PEPPER="$(RANDOM_SECRET)" \
		$(VENV) manage.py check --deploy --fail-level WARNING
	$(VENV) manage.py check_translations

format:
	@$(BOOTSTRAP) install check
	$(VENV) -m ruff check --fix .
	$(VENV) -m ruff format .

lock:
	@rm -rf build/lock
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet uv packaging
	build/lock/bin/python deploy/lock/write.py

clean:
	rm -rf .venv .venv.lock build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache test-results
	find . -name __pycache__ -type d -not -path './var/*' -prune -exec rm -rf {} +

clean-all: clean
	rm -rf var
