# One spelling per command; CI calls the same recipes.
set shell := ["bash", "-euo", "pipefail", "-c"]

checkov_version := "3.3.30"
iam_simulate_version := "0.1.173"

# Processes that run tests: three for each two cores, for they wait a third of their time
workers := "$(( (" + num_cpus() + " * 3 + 1) / 2 ))"

# Those of the integration wait two thirds of it: for an emulator, a process, or a real second
waiting := "$(( " + num_cpus() + " * 5 / 2 ))"

# Where Python finds what the tests of all packages share
all_tests := "tests-integration:tools:packages/zae-limiter-core/tests:packages/zae-limiter-manifest/tests:packages/zae-limiter-provisioner/tests:packages/zae-limiter-aggregator/tests:packages/zae-limiter-cli/tests"

# Tests start many interpreters: without kept bytecode each `local up` takes 1.5 s more, to compile moto
export PYTHONDONTWRITEBYTECODE := ""

# List the recipes
default:
    @just --list

# Make the environment of the workspace
sync:
    uv sync --locked

# Let processes have networks of their own on Ubuntu, as the engines of `local up` need them: a setting of the machine
own-networks:
    sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0

# Everything that is fast: format, lint, types, layers, sibling bounds, house rules, spelling, and the tests of the tools
check: sync static
    uv run pytest -q -m "not slow" tools

# What is checked without running it
[private]
static:
    uv run ruff format --check .
    uv run ruff check .
    just types
    uv run lint-imports
    uv run python tools/check_siblings.py
    uv run python tools/variants.py --check
    uv run python tools/house_rules.py
    uv run python tools/sentences.py --check
    uv run codespell

# The blocking variant of each module that is the source of both
variants:
    uv run python tools/variants.py

# Types of everything; a run for each package's tests, whose modules have the names of another's
types:
    uv run mypy packages/*/src benchmarks tools conftest.py
    printf '%s\n' packages/*/tests tests-integration | xargs -n 1 uv run mypy

# Each package's tests with only its own dependencies and extras: `just test`, `just test core`
[positional-arguments]
test *names:
    uv run python tools/sessions.py alone "$@"

# The unit tests of all packages on all cores, without the slow ones, in less than a minute: `just test-fast -k shard`
[positional-arguments]
test-fast *args:
    uv run python tools/sessions.py fast "$@"

# Which branches the fast tests take, by package; less than docs/contribute/checks.md says is a failure: `just coverage`, `just coverage --write`
[positional-arguments]
coverage *args:
    uv run python tools/branches.py "$@"

# All packages' tests on each Python that is promised and here
test-pythons:
    uv run python tools/sessions.py pythons -n {{workers}} --dist worksteal

# Each package's tests with the `newest` dependencies that there are, or the `lowest` that it admits, and core's also with its extras, which hold boto3 back; the lock file is left alone: `just test-dependencies newest core -m "not slow"`
[positional-arguments]
test-dependencies which *args:
    uv run python tools/environments.py dependencies "$@"

# The web integrations, each framework in its `oldest` version, or the `newest` on the newest Python that is here: `just test-frameworks oldest`
test-frameworks which:
    uv run python tools/environments.py frameworks {{which}}

# The integrations of language models with their clients, in their `oldest` versions, or the `newest` on the newest Python that is here: `just test-llm oldest`
test-llm which:
    uv run python tools/environments.py llm {{which}}

# The projects of `examples`, each with its tests in the environment that its README makes: `just examples`, `just examples flask-app`
examples *names:
    uv run python tools/sessions.py examples {{names}}

# The whole stack on every target that this machine offers, a file at a time in each process: `just integration --target dynoxide`
integration *args:
    uv run pytest tests-integration --numprocesses {{waiting}} --maxprocesses 5 --dist loadfile --no-loadscope-reorder --durations 12 {{args}}

# The whole stack on LocalStack, as a container or a process: `just integration-localstack -k limits_template`
integration-localstack *args:
    just integration --target localstack {{args}}

# The whole stack on one emulator, each test in one variant, without long ones; on the other emulator, what emulators answer differently: conditions, transactions, many writers at once
integration-once:
    just integration --one-emulator --once

# LocalStack's image for the tests: the public one, or one of our own where no registry can be reached (root, debootstrap)
localstack-image:
    uv run tests-integration/localstack/image.sh

# LocalStack as a process on a port, until Ctrl-C: no container engine, Python 3.12 or 3.13
localstack-host port="4566":
    PYTHONPATH=tests-integration uv run python -m support.integration.localstack {{port}}

# Core's clients with its extras, and the tests that compare stores over the SDK, on one emulator, in one variant each; `just integration --transport sdk` is the whole suite
integration-sdk:
    uv run pytest -q --once --installed packages/zae-limiter-core/tests/unit/engines/dynamodb/protocol packages/zae-limiter-core/tests/behaviour/test_stores.py packages/zae-limiter-core/tests/behaviour/test_connections.py
    uv run pytest -q --once --transport sdk --target dynoxide -n {{workers}} --dist loadfile tests-integration/tests/test_{stores_agree,every_method,same_script,failures,costs}.py

# Published failures of limiters as scenes, which docs/museum.md lists: in memory, on a file of SQLite, some on an emulator of DynamoDB
museum *args:
    uv run pytest -q packages/zae-limiter-core/tests/museum tests-integration/tests/test_museum.py --one-emulator {{args}}

# Histories of several processes on one table, on all cores: `just simulate --seeds 100000`, `just simulate --replay 17`
simulate *args:
    PYTHONPATH=packages/zae-limiter-core/tests uv run python -m simulation {{args}}

# Lives of a process, its event loops and threads, cut off anywhere: `just simulate-processes --seeds 5000`, `just simulate-processes --variant sync --replay 17`
simulate-processes *args:
    PYTHONPATH=packages/zae-limiter-core/tests uv run python -m processes {{args}}

# Processes that share a file of SQLite, half of which are killed every half second, against ledgers of their own: `just kill-sqlite --seconds 60`
kill-sqlite *args:
    PYTHONPATH=packages/zae-limiter-core/tests uv run python -m support.core.killed {{args}}

# `limits apply` before a Lambda and on a file, killed at each line of its own code in turn (some minutes)
kill-apply *args:
    ZAEL_TEST_EVERY_LINE=1 uv run pytest packages/zae-limiter-cli/tests/behaviour/limits/test_killed_apply.py -o faulthandler_timeout=3600 {{args}}

# A process that splits a bucket under load, killed after each of its writes in turn (some minutes)
kill-splits *args:
    ZAEL_TEST_EVERY_WRITE=1 uv run pytest tests-integration/tests/test_shards_killed.py {{args}}

# A thousand entities applied to a local stack that stops and goes on, under load, on moto and dynoxide
stress-local *args:
    ZAEL_TEST_ENTITIES=1000 uv run pytest tests-integration/tests/test_local_stress.py {{args}}

# Processes that end in every way, over a store behind a fault proxy: `just lifecycle --times 200 --stop-seconds 120`
lifecycle *args:
    PYTHONPATH=tests-integration uv run python -m lifecycle {{args}}

# Hostile input for every surface, on all cores: `just fuzz --minutes 10`, `just fuzz --only cli`, `just fuzz --replay SURFACE:INPUT`
[positional-arguments]
fuzz *args:
    PYTHONPATH={{all_tests}} uv run python -m fuzz "$@"

# The tests that docs/security.md names
[positional-arguments]
proofs *args:
    uv run python tools/proofs.py "$@"

# The deliberate faults, and the history that finds each
mutants:
    PYTHONPATH=packages/zae-limiter-core/tests uv run python -m simulation --mutants
    PYTHONPATH=packages/zae-limiter-core/tests uv run python -m processes --mutants

# What the README promises about speed and cost, with its tables and charts: `just bench`, `just bench latency`
bench *names:
    PYTHONPATH=tests-integration:packages/zae-limiter-core/tests:tools uv run --group bench python -m benchmarks.run {{names}}

# A part of the table of `just bench overshoot`, printed: `just overshoot --only pieces --cells 128x3 512x8 --into cells.jsonl`
overshoot *args:
    PYTHONPATH=tests-integration:packages/zae-limiter-core/tests:tools uv run --group bench python -m benchmarks.overshoot {{args}}

# Writes per admission for few and many processes, in virtual time
model-writes: (bench "model_writes")

# The templates as checkov sees them, in an environment of its own; .checkov.yaml has what it leaves out, and why
checkov:
    uv run python tools/scans.py checkov {{checkov_version}}

# What the policies of the stack allow, as a simulator of IAM decides it and as the tests do; it needs node
iam:
    uv run python tools/scans.py iam {{iam_simulate_version}}

# Known holes of dependencies: of the lock files, and of the lowest and newest releases that each extra admits; it needs a network
audit:
    uv run python tools/audit.py

# The site, with the reference from the code, and every page as Markdown too
docs folder="site":
    PYTHONPATH=tools uv run --group docs python -m website.build {{folder}}

# The pictures of the docs and the tables of "Why not Redis?", from the library's arithmetic, from prices and from docs/benchmarks.md
pictures:
    PYTHONPATH=tools uv run python -m website.pictures
    PYTHONPATH=tools uv run python -m website.redis
    PYTHONPATH=tools uv run python -m website.quotes
    PYTHONPATH=tools uv run python -m website.alarms
    PYTHONPATH=tools uv run python -m website.cost
    PYTHONPATH=tools uv run python -m website.quota
    PYTHONPATH=tools uv run python -m website.obeyed

# The list of commands in docs/cli.md
lists:
    uv run python tools/lists.py

# The picture of the README: the last screen of `zae-limiter demo`
demo-picture:
    PYTHONPATH=tools uv run python -m website.demo
    PYTHONPATH=tools uv run python -m website.top

# Every page of the site in headless Chromium (apt-get install chromium): phone and desk, light and dark
docs-check folder="site": (docs folder)
    PYTHONPATH=tools uv run --group docs python -m website.check {{folder}}

# An sdist of each distribution, and the wheel that is built from it: `just dist`, `just dist core`; the build backend is that of uv.lock, by hash
[positional-arguments]
dist *names:
    uv run python tools/builds.py dist "$@"

# A wheel of each distribution, built from its sdist
wheelhouse: dist
    rm -rf wheelhouse && mkdir wheelhouse && cp dist/*.whl wheelhouse
    uv run python tools/check_siblings.py wheelhouse/*.whl

# Each package's tests against the wheel of its sdist, installed alone; `just wheels-test --once`: one variant of each, and nothing that is long
wheels-test *options: wheelhouse
    uv run python tools/environments.py wheels -n {{workers}} --dist worksteal {{options}}

# Release one distribution: changelog, version, its siblings' bounds, commit, tag: `just release core 0.2.0`, `just release core 0.2.0 --dry-run`
release name version *options:
    uv run python tools/release.py {{options}} {{name}} {{version}}

# What a tag of a release publishes: sdist and wheel in dist; their hashes and the SBOM of what they are tested with in evidence
[positional-arguments]
release-files tag:
    uv run python tools/builds.py files "$1"

# The tests of what is in dist, with its siblings as the index has them
dist-test:
    uv run python tools/environments.py built -n auto

# The page of a release on GitHub, with its files; the changelog's newest section is its text
[positional-arguments]
release-page tag:
    uv run python tools/builds.py page "$1"

# What a release does and what it builds, in clones; the example for the CDK, with npm
test-release:
    uv run pytest -q -m slow tools

# A whole release in a clone and into an index on this machine: `just rehearse-release`, `just rehearse-release cli`
rehearse-release name="core":
    uv run python tools/rehearse.py {{name}}

# Core's wheel in an environment of the newest boto3, langchain-aws and fastapi: no version changes, an acquire works; its size and import time
install-beside:
    PYTHONPATH=tests-integration uv run python tools/install_beside.py

# The site in an environment of its own, strict and without a network, into a folder that is gone afterwards
[private]
site:
    PYTHONPATH=tools uv run --isolated --group docs python -m website.throwaway

# The tests of the tools, without long ones, on one core
[private]
test-tools:
    uv run pytest -q --once -m "not slow" tools

# What leaves a core idle, beside each other
[parallel, private]
beside: static test-tools site

# All tests of packages beside each other: some use the cores, others wait two thirds of their time
[parallel, private]
tests-beside: (wheels-test "--once") integration-once (examples "flask-app")

# What proves a change, in minutes: docs/contribute/checks.md says what it leaves to `just everything`. A wheel alone in an environment has its own dependencies and no others, and no extras. It ends with the times of its parts and all that it skipped
test-all:
    uv run python tools/parts.py beside tests-beside

# Before a release, and each night in the workflow: all that can run, some hours; or some parts of it: `just everything mutants "fuzz --minutes 5"`
[positional-arguments]
everything *parts:
    uv run python tools/parts.py "$@"
