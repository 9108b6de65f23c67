# One spelling per command; CI calls the same recipes.
set shell := ["bash", "-euo", "pipefail", "-c"]

packages := "core manifest provisioner aggregator cli"

# List the recipes
default:
    @just --list

# Make the environment of the workspace
sync:
    uv sync --locked

# Everything that is fast: format, lint, types, layers, sibling bounds, spelling
check: sync
    uv run ruff format --check .
    uv run ruff check .
    just types
    uv run lint-imports
    uv run python tools/check_siblings.py
    uv run codespell
    uv run pytest -q tools

# Types of everything; a run for each package's tests, whose modules have the names of another's
types:
    #!/usr/bin/env bash
    set -euo pipefail
    uv run mypy packages/*/src benchmarks tools conftest.py
    for name in {{packages}}; do uv run mypy "packages/zae-limiter-$name/tests"; done
    uv run mypy tests-integration

# Each package's tests with only its own dependencies and extras: `just test`, `just test core`
test pkg=packages:
    #!/usr/bin/env bash
    set -euo pipefail
    for name in {{pkg}}; do
        echo "== zae-limiter-$name"
        uv run --isolated --package "zae-limiter-$name" --all-extras --no-dev --group test pytest -q "packages/zae-limiter-$name/tests"
    done

# The unit tests of all packages on all cores, without the slow ones, in less than a minute: `just test-fast -k shard`
[positional-arguments]
test-fast *args:
    #!/usr/bin/env bash
    set -euo pipefail
    # A session for each group: importing the handler of a Lambda sets up logging for the whole process.
    for names in "core manifest" "provisioner aggregator" "cli"; do
        folders=()
        for name in $names; do folders+=("packages/zae-limiter-$name/tests/unit"); done
        uv run pytest -q --numprocesses auto --dist loadfile -m "not slow" "${folders[@]}" "$@" || [[ $? == 5 ]]  # 5: -k left none
    done
    uv run pytest -q tools "$@" || [[ $? == 5 ]]

# All packages' tests on each Python that is promised and here; `just test-pythons fast`: the fast ones of core and cli, on those that are not the default
test-pythons which="all":
    #!/usr/bin/env bash
    set -euo pipefail
    case "{{which}}" in
        all) names="{{packages}}" choice="" options=(-q) ;;
        fast) names="core cli" choice="--others" options=(-q -m "not slow") ;;
        *) echo "just test-pythons [fast], not: {{which}}" >&2; exit 2 ;;
    esac
    found=$(uv run python tools/pythons.py $choice)
    failed=""
    while read -r version python; do
        for name in $names; do
            [[ -n "$python" ]] || continue
            echo "== zae-limiter-$name on Python $version"
            uv run --isolated --python "$python" --package "zae-limiter-$name" --no-dev --group test --with pytest-xdist \
                python -m pytest -n auto "${options[@]}" "packages/zae-limiter-$name/tests" < /dev/null || failed+=" $name on $version,"
        done
    done <<< "$found"
    [[ -z "$failed" ]] || { echo "failed:${failed%,}" >&2; exit 1; }

# Each package's tests with the `newest` dependencies that there are, or the `lowest` that it admits, and core's also with its extras, which hold boto3 back; the lock file is left alone: `just test-dependencies newest core -m "not slow"`
[positional-arguments]
test-dependencies which pkg=(packages + " core[aioboto3,speed]") *args:
    #!/usr/bin/env bash
    set -euo pipefail
    case "{{which}}" in
        newest) resolution=highest ;;
        lowest) resolution=lowest-direct ;;
        *) echo "just test-dependencies newest|lowest, not: {{which}}" >&2; exit 2 ;;
    esac
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    for choice in {{pkg}}; do
        name=${choice%%[*}
        echo "== zae-limiter-$choice, its {{which}} dependencies"
        uv venv --quiet --clear "$scratch/$name"
        uv pip install --quiet --python "$scratch/$name" --resolution "$resolution" --editable "packages/zae-limiter-$choice" \
            --group "packages/zae-limiter-$name/pyproject.toml:test" "pytest-xdist>=3.6"
        uv pip list --quiet --python "$scratch/$name" | { grep -E "^(aioboto3|boto3|orjson) " || true; }
        "$scratch/$name/bin/pytest" -q -n auto "packages/zae-limiter-$name/tests" "${@:3}"
    done

# The web integrations, each framework in its `oldest` version, or the `newest` on the newest Python that is here: `just test-frameworks oldest`
test-frameworks which:
    #!/usr/bin/env bash
    set -euo pipefail
    case "{{which}}" in
        newest) resolution=highest python=$(uv run python tools/pythons.py | awk 'NF > 1 { found = $2 } END { print found }') ;;
        oldest) resolution=lowest-direct python=$(uv run python -c 'import sys; print(sys.executable)') ;;
        *) echo "just test-frameworks newest|oldest, not: {{which}}" >&2; exit 2 ;;
    esac
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    uv venv --quiet --clear --python "$python" "$scratch/venv"
    uv pip install --quiet --python "$scratch/venv" --resolution "$resolution" --editable "packages/zae-limiter-core[fastapi,flask,django]" \
        --group packages/zae-limiter-core/pyproject.toml:test --group packages/zae-limiter-core/pyproject.toml:frameworks
    "$scratch/venv/bin/python" --version
    uv pip list --quiet --python "$scratch/venv" | grep -E "^(django|fastapi|flask|gunicorn|litestar|quart|starlette|uvicorn) "
    "$scratch/venv/bin/pytest" -q packages/zae-limiter-core/tests/frameworks

# The whole stack on every target that this machine offers, a file at a time on each core: `just integration --target dynoxide`
integration *args:
    uv run pytest tests-integration --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder --durations 12 {{args}}

# Core's clients with its extras, and the tests that compare stores over the SDK, on one emulator; `just integration --transport sdk` is the whole suite
integration-sdk:
    uv run pytest -q packages/zae-limiter-core/tests/unit/protocol packages/zae-limiter-core/tests/behaviour/test_stores.py packages/zae-limiter-core/tests/behaviour/test_connections.py
    just integration --transport sdk --target dynoxide -k "'stores_agree or every_method or same_script or test_failures or test_costs or concurrency'"

# Histories of several processes on one table, on all cores: `just simulate --seeds 100000`, `just simulate --replay 17`
simulate *args:
    PYTHONPATH=packages/zae-limiter-core/tests uv run python -m simulation {{args}}

# Lives of a process, its event loops and threads, cut off anywhere: `just simulate-processes --seeds 5000`, `just simulate-processes --variant sync --replay 17`
simulate-processes *args:
    PYTHONPATH=packages/zae-limiter-core/tests uv run python -m processes {{args}}

# A process that splits a bucket under load, killed after each of its writes in turn (some minutes)
kill-splits *args:
    ZAEL_TEST_EVERY_WRITE=1 uv run pytest tests-integration/tests/test_shards_killed.py {{args}}

# Processes that end in every way, over a store behind a fault proxy: `just lifecycle --times 200 --stop-seconds 120`
lifecycle *args:
    PYTHONPATH=tests-integration uv run python -m lifecycle {{args}}

# The deliberate faults, and the history that finds each
mutants:
    PYTHONPATH=packages/zae-limiter-core/tests uv run python -m simulation --mutants
    PYTHONPATH=packages/zae-limiter-core/tests uv run python -m processes --mutants

# What the README promises about speed and cost: `just bench`, `just bench latency`
bench *names:
    PYTHONPATH=tests-integration:packages/zae-limiter-core/tests uv run --group bench python -m benchmarks.run {{names}}

# Writes per admission for few and many processes, in virtual time
model-writes: (bench "model_writes")

# The site
docs:
    uv run --group docs mkdocs build --strict

# A wheel of each distribution
wheelhouse:
    rm -rf wheelhouse
    uv build --all-packages --wheel --quiet --out-dir wheelhouse
    uv run python tools/check_siblings.py wheelhouse/*.whl

# Each package's tests against built wheels, installed alone
wheels-test: wheelhouse
    #!/usr/bin/env bash
    set -euo pipefail
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    # siblings come from the wheelhouse, whatever an index has under their names
    for wheel in "$PWD"/wheelhouse/*.whl; do
        name=$(basename "$wheel" | cut -d- -f1)
        echo "${name//_/-} @ file://$wheel"
    done > "$scratch/siblings.txt"
    for name in {{packages}}; do
        echo "== zae-limiter-$name, its wheel"
        uv venv --quiet "$scratch/$name"
        uv pip install --quiet --python "$scratch/$name" --constraints "$scratch/siblings.txt" \
            "$PWD/wheelhouse/zae_limiter_$name-"*.whl --group "packages/zae-limiter-$name/pyproject.toml:test" pytest-xdist
        "$scratch/$name/bin/pytest" -q -n auto "packages/zae-limiter-$name/tests"
    done

# Core's wheel in an environment of the newest boto3, langchain-aws and fastapi: no version changes, an acquire works; its size and import time
install-beside:
    PYTHONPATH=tests-integration uv run python tools/install_beside.py

# Everything that CI runs; a wheel alone in an environment has its own dependencies and no others, and no extras
test-all: check wheels-test (test-pythons "fast") (test-frameworks "newest") integration integration-sdk
