# One spelling per command; CI calls the same recipes.
set shell := ["bash", "-euo", "pipefail", "-c"]

packages := "core manifest provisioner aggregator cli"
checkov_version := "3.3.30"
iam_simulate_version := "0.1.173"

# Processes that run tests: three for each two cores, for they wait a third of their time
workers := "$(( (" + num_cpus() + " * 3 + 1) / 2 ))"

# All but LiteLLM's, whose environment is large
light_examples := "celery-worker flask-app github-actions lambda-function llm-gateway"

# What another Python may change: event loops, threads, signals, connections, inspection
of_interpreters := "{behaviour/test_{asgi,connections,distribution,group_commit,interruption,parity,process_life,processes,serving,signals,transport,waiting}.py,unit/{observers,protocol,runtime}}"

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

# Everything that is fast: format, lint, types, layers, sibling bounds, spelling
check: sync
    uv run ruff format --check .
    uv run ruff check .
    just types
    uv run lint-imports
    uv run python tools/check_siblings.py
    uv run python tools/variants.py --check
    uv run codespell
    uv run pytest -q -m "not slow" tools

# The blocking variant of each module that is the source of both
variants:
    uv run python tools/variants.py

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
    for name in {{assert(pkg =~ '\w', "name a package")}}{{pkg}}; do
        echo "== zae-limiter-$name"
        uv run --isolated --package "zae-limiter-$name" --all-extras --no-dev --group test pytest -q "packages/zae-limiter-$name/tests"
    done

# The unit tests of all packages on all cores, without the slow ones, in less than a minute: `just test-fast -k shard`
[positional-arguments]
test-fast *args:
    #!/usr/bin/env bash
    set -euo pipefail
    ran=""
    run() {  # -k may leave none of a group, but not of all
        local code=0
        uv run pytest -q -m "not slow" "$@" || code=$?
        case $code in 0) ran=yes ;; 5) ;; *) exit $code ;; esac
    }
    # A session for each group: importing the handler of a Lambda sets up logging for the whole process.
    for names in "core manifest" "provisioner aggregator" "cli"; do
        folders=()
        for name in $names; do folders+=("packages/zae-limiter-$name/tests/unit"); done
        run --numprocesses auto --dist loadfile "${folders[@]}" "$@"
    done
    run tools "$@"
    [[ -n "$ran" ]] || { echo "no test ran" >&2; exit 5; }

# All packages' tests on each Python that is promised and here; `just test-pythons fast`: the fast ones of core and cli on the newest, and on those between it and the default the ones of core that concern interpreters
test-pythons which="all":
    #!/usr/bin/env bash
    set -euo pipefail
    case "{{which}}" in
        all) names="{{packages}}" choice="" options=(-q) ;;
        fast) names="core cli" choice="--others" options=(-q -m "not slow") ;;
        *) echo "just test-pythons [fast], not: {{which}}" >&2; exit 2 ;;
    esac
    found=$(uv run python tools/pythons.py $choice)
    newest=$(awk 'NF > 1 { last = $1 } END { print last }' <<< "$found")
    failed=""
    while read -r version python; do
        for name in $names; do
            tests=("packages/zae-limiter-$name/tests")
            if [[ "{{which}}" == fast && "$version" != "$newest" ]]; then
                [[ "$name" == core ]] || continue
                tests=(packages/zae-limiter-core/tests/{{of_interpreters}})
            fi
            echo "== zae-limiter-$name on Python $version"
            uv run --isolated --python "$python" --package "zae-limiter-$name" --no-dev --group test --with pytest-xdist \
                python -m pytest -n {{workers}} --dist worksteal "${options[@]}" "${tests[@]}" < /dev/null || failed+=" $name on $version,"
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
    for choice in {{assert(pkg =~ '\w', "name a package")}}{{pkg}}; do
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
    "$scratch/venv/bin/pytest" -q --installed packages/zae-limiter-core/tests/frameworks

# The integrations of language models with their clients, in their `oldest` versions, or the `newest` on the newest Python that is here: `just test-llm oldest`
test-llm which:
    #!/usr/bin/env bash
    set -euo pipefail
    case "{{which}}" in
        newest) resolution=highest python=$(uv run python tools/pythons.py | awk 'NF > 1 { found = $2 } END { print found }') ;;
        oldest) resolution=lowest-direct python=$(uv run python -c 'import sys; print(sys.executable)') ;;
        *) echo "just test-llm newest|oldest, not: {{which}}" >&2; exit 2 ;;
    esac
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    core="$PWD/packages/zae-limiter-core"
    uv venv --quiet --clear --python "$python" "$scratch/venv"
    # in another folder: the workspace excludes what these extras need
    uv pip install --quiet --directory "$scratch" --python venv --resolution "$resolution" --editable "$core[langchain,litellm]" \
        --group "$core/pyproject.toml:test" --requirements "$core/tests/llm/requirements.txt"
    "$scratch/venv/bin/python" --version
    uv pip list --quiet --python "$scratch/venv" | grep -E "^(anthropic|langchain-anthropic|langchain-core|langchain-openai|litellm|openai) "
    "$scratch/venv/bin/mypy" --config-file= --strict --python-version 3.11 packages/zae-limiter-core/src/zae_limiter/integrations/{langchain,litellm}.py
    "$scratch/venv/bin/pytest" -q --installed packages/zae-limiter-core/tests/llm

# The projects of `examples`, each with its tests in the environment that its README makes: `just examples`, `just examples flask-app`
examples *names:
    #!/usr/bin/env bash
    set -euo pipefail
    names="{{names}}"
    for name in ${names:-$(cd examples && printf '%s\n' */pyproject.toml | xargs dirname)}; do
        echo "== $name"
        (cd "examples/$name" && uv run --quiet pytest -q)
    done

# The whole stack on every target that this machine offers, a file at a time in each process: `just integration --target dynoxide`
integration *args:
    uv run pytest tests-integration --numprocesses {{workers}} --maxprocesses 4 --dist loadfile --no-loadscope-reorder --durations 12 {{args}}

# The whole stack on LocalStack, as a container or a process: `just integration-localstack -k limits_template`
integration-localstack *args:
    just integration --target localstack {{args}}

# The whole stack on one emulator; on the other, what emulators answer differently: conditions, transactions, many writers at once
integration-once:
    just integration --one-emulator
    just integration --target dynamodb-local -k "'stores_agree or every_method or same_script or concurrency'"

# The parts of a stack on LocalStack: deploy, limits through the Lambda, usage through the stream, dead letters, the template of limits
localstack-parts:
    uv run pytest -q --durations 6 --target localstack tests-integration/tests/test_{stack,lambdas,limits_template}.py

# LocalStack's image for the tests: the public one, or one of our own where no registry can be reached (root, debootstrap)
localstack-image:
    uv run tests-integration/localstack/image.sh

# LocalStack as a process on a port, until Ctrl-C: no container engine, Python 3.12 or 3.13
localstack-host port="4566":
    PYTHONPATH=tests-integration uv run python -m support.integration.localstack {{port}}

# Core's clients with its extras, and the tests that compare stores over the SDK, on one emulator; `just integration --transport sdk` is the whole suite
integration-sdk:
    uv run pytest -q --installed -n {{workers}} --dist worksteal packages/zae-limiter-core/tests/unit/engines/dynamodb/protocol packages/zae-limiter-core/tests/behaviour/test_stores.py packages/zae-limiter-core/tests/behaviour/test_connections.py
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

# A thousand entities applied to a local stack that stops and goes on, under load, on moto and dynoxide
stress-local *args:
    ZAEL_TEST_ENTITIES=1000 uv run pytest tests-integration/tests/test_local_stress.py {{args}}

# Processes that end in every way, over a store behind a fault proxy: `just lifecycle --times 200 --stop-seconds 120`
lifecycle *args:
    PYTHONPATH=tests-integration uv run python -m lifecycle {{args}}

# Hostile input for every surface, on all cores: `just fuzz --minutes 10`, `just fuzz --only cli`, `just fuzz --replay SURFACE:INPUT`
[positional-arguments]
fuzz *args:
    #!/usr/bin/env bash
    set -euo pipefail
    path=tests-integration:tools
    for name in {{packages}}; do path+=":packages/zae-limiter-$name/tests"; done
    PYTHONPATH="$path" uv run python -m fuzz "$@"

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

# Writes per admission for few and many processes, in virtual time
model-writes: (bench "model_writes")

# The templates as checkov sees them, in an environment of its own; .checkov.yaml has what it leaves out, and why
checkov:
    #!/usr/bin/env bash
    set -euo pipefail
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    uv run python tools/templates.py "$scratch"
    uv run zae-limiter limits cfn-template -f testdata/tenant-alpha.limits.yaml > "$scratch/limits.yaml"
    uv tool run --python ">=3.11,<3.14" --from checkov=={{checkov_version}} checkov --config-file .checkov.yaml --directory "$scratch" | tee "$scratch/found"
    grep -q "^Passed checks: [1-9]" "$scratch/found" || { echo "checkov has checked nothing" >&2; exit 1; }

# What the policies of the stack allow, as a simulator of IAM decides it and as the tests do; it needs node
iam:
    #!/usr/bin/env bash
    set -euo pipefail
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    PYTHONPATH=packages/zae-limiter-cli/tests uv run python tools/iam.py "$scratch/asked.json"
    npm install --prefix "$scratch" --silent --no-fund --no-audit @cloud-copilot/iam-simulate@{{iam_simulate_version}}
    node tools/iam.mjs "$scratch/asked.json"

# The site, with the reference from the code, and every page as Markdown too
docs folder="site":
    PYTHONPATH=tools uv run --group docs python -m website.build {{folder}}

# The pictures of the docs and the tables of "Why not Redis?", from the library's arithmetic, from prices and from docs/benchmarks.md
pictures:
    PYTHONPATH=tools uv run python -m website.pictures
    PYTHONPATH=tools uv run python -m website.redis
    PYTHONPATH=tools uv run python -m website.alarms
    PYTHONPATH=tools uv run python -m website.cost

# The picture of the README: the last screen of `zae-limiter demo`
demo-picture:
    PYTHONPATH=tools uv run python -m website.demo

# Every page of the site in headless Chromium (apt-get install chromium): phone and desk, light and dark
docs-check folder="site": (docs folder)
    PYTHONPATH=tools uv run --group docs python -m website.check {{folder}}

# An sdist of each distribution, and the wheel that is built from it: `just dist`, `just dist core`; the build backend is that of uv.lock, by hash
dist pkg=packages:
    #!/usr/bin/env bash
    set -euo pipefail
    rm -rf dist
    constraints=$(mktemp)
    trap 'rm -f "$constraints"' EXIT
    uv export --quiet --locked --only-group build --no-header --output-file "$constraints" > /dev/null
    export SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
    for name in {{pkg}}; do
        uv build --quiet --package "zae-limiter-$name" --build-constraints "$constraints" --require-hashes --no-create-gitignore --out-dir dist
    done
    (cd dist && sha256sum -- *)

# A wheel of each distribution, built from its sdist
wheelhouse: dist
    rm -rf wheelhouse
    mkdir wheelhouse
    cp dist/*.whl wheelhouse
    uv run python tools/check_siblings.py wheelhouse/*.whl

# Each package's tests against the wheel of its sdist, installed alone
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
        "$scratch/$name/bin/pytest" -q -n {{workers}} --dist worksteal "packages/zae-limiter-$name/tests"
    done

# Release one distribution: changelog, version, its siblings' bounds, commit, tag: `just release core 0.2.0`, `just release core 0.2.0 --dry-run`
release name version *options:
    uv run python tools/release.py {{options}} {{name}} {{version}}

# What a tag of a release publishes: sdist and wheel in dist; their hashes and the SBOM of what they are tested with in evidence
[positional-arguments]
release-files tag:
    #!/usr/bin/env bash
    set -euo pipefail
    name=$(uv run python tools/tagged.py "$1")
    just dist "$name"
    uv run --group release twine check --strict dist/*
    rm -rf evidence
    mkdir evidence
    uv export --quiet --locked --package "zae-limiter-$name" --all-extras --no-dev --format cyclonedx1.5 \
        --output-file "evidence/$(basename dist/*.tar.gz .tar.gz).cdx.json" > /dev/null
    (cd dist && sha256sum -- *) > evidence/SHA256SUMS
    (cd evidence && sha256sum -- *.json) >> evidence/SHA256SUMS

# The tests of what is in dist, with its siblings as the index has them
dist-test:
    #!/usr/bin/env bash
    set -euo pipefail
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    wheel=$(echo dist/*.whl)
    name=$(basename "$wheel" | cut -d- -f1 | cut -d_ -f3)
    uv venv --quiet "$scratch/venv"
    uv pip install --quiet --python "$scratch/venv" "$wheel" --group "packages/zae-limiter-$name/pyproject.toml:test" pytest-xdist
    "$scratch/venv/bin/pytest" -q -n auto "packages/zae-limiter-$name/tests"

# The page of a release on GitHub, with its files; the changelog's newest section is its text
[positional-arguments]
release-page tag:
    #!/usr/bin/env bash
    set -euo pipefail
    name=$(uv run python tools/tagged.py "$1")
    awk '/^## / { section++ } section == 1' "packages/zae-limiter-$name/CHANGELOG.md" |
        gh release create "$1" --verify-tag --title "$1" --notes-file - dist/* evidence/*

# What a release does and what it builds, in clones; the example for the CDK, with npm
test-release:
    uv run pytest -q -m slow tools

# A whole release in a clone and into an index on this machine: `just rehearse-release`, `just rehearse-release cli`
rehearse-release name="core":
    uv run python tools/rehearse.py {{name}}

# Core's wheel in an environment of the newest boto3, langchain-aws and fastapi: no version changes, an acquire works; its size and import time
install-beside:
    PYTHONPATH=tests-integration uv run python tools/install_beside.py

# The site in an environment of its own, strict and without a network; each page in Chromium where that is, in light colours
[private]
site:
    #!/usr/bin/env bash
    set -euo pipefail
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    export PYTHONPATH=tools
    uv run --isolated --group docs bash -c 'python -m website.build "$1" && python -m website.check --quick "$1"' site "$scratch/site"

# What leaves a core idle, beside each other
[parallel, private]
beside: check checkov site localstack-parts

# Before a release; a wheel alone in an environment has its own dependencies and no others, and no extras. It ends with the times of its parts and all that it skipped. The workflow runs more: CONTRIBUTING.md
test-all:
    #!/usr/bin/env bash
    set -euo pipefail
    export ZAEL_SKIPS=$(mktemp)
    took=""
    finish() {
        local code=$?
        printf "\n%s" "$took"
        uv run python tools/skips.py "$ZAEL_SKIPS" || code=1
        rm "$ZAEL_SKIPS"
        exit $code
    }
    trap finish EXIT
    for part in beside wheels-test "test-pythons fast" integration-once integration-sdk "fuzz --minutes 0.5 --seed 1" \
        "examples {{light_examples}}"; do
        SECONDS=0
        just $part
        took+="$part: $SECONDS s"$'\n'
    done
