# Prerequisites: Debian with Python 3.11 or newer, its venv module, make and git.  Everything else is set up here.
#
#   make demo     a whole LCC at work, in a temporary folder; needs no privileges
#   make test     the tests; sets up the virtual environment and, where needed, the programs of MariaDB, nginx, vsftpd and search engines
#   make test-long    the slow tests on both databases, and in more rounds
#   make galera   what the tests of storage and of nodes, and random kills, find on a Galera cluster of three nodes
#   make proof-tree   20,000 pages through a central BOT-M, three machines and nine robots, one of which is killed each second
#   make cuts     every wire cut after every byte of a conversation; can be stopped, and goes on where it was
#   make kill-test    kills processes of an LCC at work, and its database server, until KILLS=… are reached in all its runs
#   make kill-sources kills all roles while sites push, have feeds and sitemaps, and are searched, KILLS=… times in all
#   make kill-jobs    kills scheduler, managers and workers while jobs run, KILLS=… times in all its runs
#   make kill-spider  kills all roles while sites are crawled, each of them KILLS=… times; can be stopped, and goes on
#   make kill-moves   kills all roles of three sub-LCCs and their front end while providers move, KILLS=… times in all its runs
#   make fuzz     mutated streams against all that reads from a connection, STREAMS=20000 of them; runs add up in build/fuzz
#   make sim SEEDS=1000   the whole LCC in a simulation, while everything goes wrong; runs add up in build/simulation
#   make network  pages/s between two hosts by latency and loss, as root; a table
#   make hostile-sockets    5,000 hostile sockets at every port of an LCC, while honest peers are served
#   make check    lint, format, types, news fragment, and the documentation
#   make doc      the documentation, build/doc/index.html
#   make man      manual pages, build/man
#   make wheel    dist/lcc-*.whl
#   make deb      dist/lcc_*.deb, a Debian package
#   make test-deb    builds two versions of it; installs, starts, upgrades, removes and purges them in a root of their own
#   make sbom     build/sbom.json: what an installation consists of, with all extras (CycloneDX)
#   make audit    asks PyPI for the advisories of all that; needs the internet, or ADVISORIES=CLONE
#   make mutants  plants changes in the code, one at a time, and looks whether a test notices; adds to build/mutants.jsonl
#   make bench    LCC and peers in turn, one table in build/bench.md; can be stopped, and goes on where it was
#   make bench-quick    the same in five minutes, with small sizes
#   make soak MINUTES=20    half the measured rate for so long, then ten times that; build/soak.svg, and a verdict
#   make soak-roles MINUTES=20    all roles at work for so long: what grows; build/soak-roles.md, and a verdict
#   make bench-curves    pages/s by robots and providers, intake by set size, depth of the queue; doc/performance/*.svg
#   make bench-growth    the queue of ten million URLs, simulated, and what ten billion need; build/growth.md
#   make bench-doc    puts what bench, soak and bench-growth have found into doc/
#   make bench-X  runs benchmarks/X.py (ARGS="…" are passed on); bench-list: their names
#   make clean    removes what the above made, the virtual environment included

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet
STAMPS := $(VENV)/.stamps
ARGS ?=
# Processes that the tests run in, one more than cores, for they often wait; 0: in pytest's own.  Who is idle takes over half of what another has.
JOBS ?= 3
PYTEST := $(PY) -m pytest -n $(JOBS) --dist worksteal

.DELETE_ON_ERROR:
.PHONY: help run-venv venv system test test-long galera proof-tree cuts sim sim-proof fuzz network hostile-sockets kill-test kill-sources kill-jobs kill-spider kill-moves check doc man demo
.PHONY: check-style check-types check-doc
.PHONY: bench bench-quick bench-list bench-curves bench-growth bench-doc soak soak-roles wheel deb test-deb sbom audit mutants clean

help:
	@sed -n 's/^#   //p' Makefile

# Two steps, because the demo can do without the tools of the developers.
run-venv: $(STAMPS)/run
venv: $(STAMPS)/replay $(STAMPS)/wacz $(STAMPS)/resync $(STAMPS)/index-now $(STAMPS)/websub

$(STAMPS)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Python 3.11 or newer is needed ($(PYTHON) is $$($(PYTHON) --version 2>&1)); try: make PYTHON=python3.11 …" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo "Python's venv module is missing; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@echo "Setting up $(VENV) …"
	@$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

# Also when the tree was moved, which an editable install does not survive: the stamp holds its place.
$(STAMPS)/place: $(STAMPS)/python FORCE
	@[ "$$(cat $@ 2>/dev/null)" = "$(CURDIR)" ] || echo "$(CURDIR)" > $@
FORCE:

$(STAMPS)/run: setup.cfg pyproject.toml $(STAMPS)/python $(STAMPS)/place
	@echo "Installing the LCC and what it needs into $(VENV) …"
	@$(PIP) install --editable '.[search]'
	@touch $@

$(STAMPS)/dev: $(STAMPS)/run
	@echo "Installing what the tests, checks and the documentation need into $(VENV) …"
	@$(PIP) install --editable '.[test,check,doc]'
	@touch $@

# In an environment of its own: it brings a package that takes the place of brotli, and breaks it.
$(STAMPS)/replay: $(STAMPS)/dev
	@echo "Installing pywb, which replays archives in the tests, into $(VENV)/replay …"
	@$(PY) -m venv $(VENV)/replay
	@$(VENV)/replay/bin/python -m pip --disable-pip-version-check --quiet install pywb
	@touch $@

# In an environment of its own: its authors' own program validates what lcc-export makes.
$(STAMPS)/wacz: $(STAMPS)/dev
	@echo "Installing wacz, which validates archives in the tests, into $(VENV)/wacz …"
	@$(PY) -m venv $(VENV)/wacz
	@$(VENV)/wacz/bin/python -m pip --disable-pip-version-check --quiet install wacz
	@touch $@

# Scripts for a browser, which shows such an archive with them; what npm would install beside them is not needed.
$(STAMPS)/replaywebpage: $(STAMPS)/python
	@command -v npm >/dev/null || { echo "npm is missing; on Debian: apt-get install npm" >&2; exit 1; }
	@echo "Fetching replaywebpage, which shows archives in the long tests, into $(VENV)/replaywebpage …"
	@rm -rf $(VENV)/replaywebpage && mkdir $(VENV)/replaywebpage
	@npm pack --silent --pack-destination $(VENV)/replaywebpage replaywebpage@2.5.3 >/dev/null
	@tar xz -C $(VENV)/replaywebpage -f $(VENV)/replaywebpage/replaywebpage-2.5.3.tgz
	@touch $@

# In an environment of its own: the tests need it, and nothing of what it brings.
$(STAMPS)/websub: $(STAMPS)/dev
	@echo "Installing Flask-WebSub, a hub and a subscriber for the tests, into $(VENV)/websub …"
	@$(PY) -m venv $(VENV)/websub
	@$(VENV)/websub/bin/python -m pip --disable-pip-version-check --quiet install Flask-WebSub
	@touch $@

# Old and pinned: a content user of others, with which the tests read what lcc-cu says.  It needs distutils.
$(STAMPS)/resync: $(STAMPS)/dev
	@echo "Installing resync, a client of ResourceSync, into $(VENV)/resync …"
	@$(PY) -m venv $(VENV)/resync
	@! $(PY) -c 'import distutils' 2>/dev/null || \
	    $(VENV)/resync/bin/python -m pip --disable-pip-version-check --quiet install resync==2.0.1
	@touch $@

# Others' pinger of IndexNow; it pins other versions of what we use.
$(STAMPS)/index-now: $(STAMPS)/dev
	@echo "Installing index-now-for-python, with which sites ping, into $(VENV)/index-now …"
	@$(PY) -m venv $(VENV)/index-now
	@$(VENV)/index-now/bin/python -m pip --disable-pip-version-check --quiet install index-now-for-python==1.1.2
	@touch $@

# MariaDB, nginx, vsftpd, search engines: only their programs.  The tests start servers of their own, in temporary folders.
system:
	@scripts/system-packages

test: venv system
	@$(PYTEST) $(ARGS)

# What takes long, in full: the slow tests on both databases, random kills and clocks in more rounds; of all other
# folders what is marked as long (but for "make test-deb").
LONG_TESTS = tests/integration tests/engines tests/galera tests/reliability tests/strings tests/cuts \
	tests/benchmarks tests/cu/test_resourcesync.py tests/export/test_guardian.py tests/export/test_wacz.py tests/documents/test_zsh.py \
	tests/qm/test_random_clocks.py tests/robots tests/simulation tests/storage/test_frontier_model.py \
	tests/transport/test_pipes.py tests/frontend tests/admin/test_show.py

# With -k the second run may have nothing to do: pytest then exits with 5.
test-long: venv system $(STAMPS)/replaywebpage
	@LCC_LONG=1 LCC_EXPORT_ROUNDS=20 $(PYTEST) $(ARGS) $(LONG_TESTS)
	@LCC_LONG=1 $(PYTEST) $(ARGS) -m long $(LONG_TESTS:%=--ignore=%) --ignore=tests/packaging/test_debian.py tests \
	    || $(if $(filter -k%,$(ARGS)),[ $$? = 5 ],exit $$?)

# One cluster for all: one process.
galera: venv system
	@LCC_LONG=1 LCC_BACKENDS=galera $(PY) -m pytest $(ARGS) tests/galera tests/storage tests/reliability/test_kills.py tests/integration/test_front_end_repair.py -k "not sqlite and not [mariadb]"

proof-tree: venv system
	@LCC_TREE_PAGES=20000 $(PY) -m pytest -s tests/integration/test_tree.py $(ARGS)

cuts: venv
	@$(PY) -m tests.cuts.whole $(ARGS)

# Adds to build/kill-test.jsonl: it can be stopped, and goes on.  doc/reliability/kills.md tells what it does.
KILLS ?= 100
kill-test: venv system
	@$(PY) -m tests.reliability --kills $(KILLS) $(ARGS)

# Adds to build/kill-sources.jsonl: it can be stopped, and goes on.
kill-sources: venv system
	@$(PY) -m tests.reliability.sources --kills $(KILLS) $(ARGS)

# Adds to build/kill-jobs.jsonl: it can be stopped, and goes on.
kill-jobs: venv system
	@$(PY) -m tests.reliability.jobs --kills $(KILLS) $(ARGS)

# Adds to build/kill-spider.jsonl: it can be stopped, and goes on.
kill-spider: venv system
	@$(PY) -m tests.reliability.crawls --kills $(KILLS) $(ARGS)

# Adds to build/kill-moves.jsonl: it can be stopped, and goes on.
kill-moves: venv system
	@$(PY) -m tests.reliability.moves --kills $(KILLS) $(ARGS)

# Adds to build/fuzz: it can be stopped, and goes on.
STREAMS ?= 20000
fuzz: venv
	@$(PY) -m tests.fuzz.run --streams $(STREAMS) $(ARGS)

# Adds to build/simulation.
SEEDS ?= 1000
sim: venv
	@$(PY) -m tests.simulation $(SEEDS) $(ARGS)

# Plants bugs, one at a time, and looks for the seed that finds each.
sim-proof: venv
	@$(PY) -m tests.simulation.planted $(ARGS)

network: venv
	@$(PY) -m tests.integration.latency $(ARGS)

hostile-sockets: venv system
	@$(PY) -m tests.hostile.siege $(ARGS)

# Adds to build/mutants.jsonl: it can be stopped, and goes on.  ARGS="lcc/domain --survivors" tries and lists only some.
mutants: venv
	@nice $(PY) -m tests.mutants $(ARGS)

# With -j 2, beside each other.
check: check-style check-types check-doc
check-style: venv
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) scripts/check_news.py
	$(PY) scripts/check_environment.py
check-types: venv
	$(PY) -m mypy
check-doc: venv
	$(SPHINX)

# A reference that leads nowhere is a warning, and a warning is an error.
SPHINX := $(PY) -m sphinx -W -n --keep-going -q -d build/doctrees -b html doc build/doc
doc: venv
	@$(SPHINX)
	@echo build/doc/index.html

demo: run-venv
	@$(PY) demo/demo.py $(ARGS)

# Adds to build/bench and build/bench-quick.
bench: venv system
	@PYTHONPATH=benchmarks $(PY) -m suite $(ARGS)

bench-quick: venv system
	@PYTHONPATH=benchmarks $(PY) -m suite --quick $(ARGS)

# Verdict by exit code; the picture is build/soak.svg.
MINUTES ?= 20
soak: venv system
	@PYTHONPATH=benchmarks $(PY) -m soak --minutes $(MINUTES) $(ARGS)

soak-roles: venv system
	@PYTHONPATH=benchmarks $(PY) -m soak.roles --minutes $(MINUTES) $(ARGS)

# Adds to build/curves; some hours, ARGS="--max 100000" less than one.
bench-curves: venv system
	@PYTHONPATH=benchmarks $(PY) -m curves $(ARGS)

bench-doc: venv
	@PYTHONPATH=benchmarks $(PY) -m suite.document

bench-growth: venv system
	@PYTHONPATH=benchmarks $(PY) -m growth $(ARGS)

bench-list:
	@echo "$(patsubst benchmarks/%.py,bench-%,$(shell grep -l __main__ benchmarks/*.py))"

bench-%: venv system
	@$(PY) benchmarks/$(subst -,_,$*).py $(ARGS)

man: run-venv
	@$(VENV)/bin/lcc-admin manual build/man/man1
	@echo "man --manpath=build/man lcc-admin"

# Only what builds it, in an environment of its own.  setuptools would take old files in build/lib along.
$(STAMPS)/build: $(STAMPS)/python
	@$(PY) -m venv $(VENV)/build
	@$(VENV)/build/bin/python -m pip --disable-pip-version-check --quiet install build 'setuptools>=70.1'
	@touch $@

wheel: $(STAMPS)/build
	@rm -rf build/lib build/bdist.*
	@$(VENV)/build/bin/python -m build --wheel --no-isolation --outdir dist .

deb: $(STAMPS)/build
	@scripts/make-deb

# As root, or where anybody may make namespaces; debootstrap takes the base of the system from Debian.
test-deb: venv $(STAMPS)/build
	@scripts/system-packages deb
	@LCC_LONG=1 $(PY) -m pytest -n 0 $(ARGS) tests/packaging/test_debian.py

# Tools in an environment of their own; what users install in another one, which has not even pip.
$(STAMPS)/sbom: $(STAMPS)/python
	@$(PY) -m venv $(VENV)/sbom
	@$(VENV)/sbom/bin/python -m pip --disable-pip-version-check --quiet install cyclonedx-bom packaging pip-audit pyyaml
	@touch $@

$(STAMPS)/installed: $(STAMPS)/build setup.cfg pyproject.toml
	@$(MAKE) --no-print-directory wheel
	@echo "Installing the wheel with all extras into $(VENV)/installed …"
	@$(PY) -m venv --without-pip --clear $(VENV)/installed
	@$(PIP) --python $(VENV)/installed/bin/python install "$$(ls -t dist/lcc-*.whl | head -1)[codings,lucene,search,text,warc]"
	@rm $(VENV)/installed/lib/python*/site-packages/lcc-*.dist-info/direct_url.json # where the wheel was is nobody's business
	@touch $@

sbom: $(STAMPS)/sbom $(STAMPS)/installed
	@mkdir -p build
	@$(VENV)/sbom/bin/cyclonedx-py environment --output-reproducible -o build/sbom.json $(VENV)/installed
	@echo build/sbom.json

# Fails if PyPI has no data of a package, too: a silence is no "nothing known".
# ADVISORIES: a clone of github.com/pypa/advisory-database, in place of PyPI's answers.
ADVISORIES =
AUDIT = $(VENV)/sbom/bin/pip-audit --strict --path
ifneq ($(ADVISORIES),)
AUDIT = $(VENV)/sbom/bin/python scripts/check_advisories.py $(ADVISORIES)
endif
audit: $(STAMPS)/sbom $(STAMPS)/installed
	@$(AUDIT) $(VENV)/installed/lib/python*/site-packages

clean:
	rm -rf $(VENV) build dist lcc.egg-info .mypy_cache .ruff_cache .hypothesis .pytest_cache
	find lcc tests twisted benchmarks demo scripts -name __pycache__ -prune -exec rm -rf {} +
	rm -f twisted/plugins/dropin.cache lcc/fetchers/plugins/dropin.cache
