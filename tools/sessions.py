"""Sessions of pytest in the environments of the workspace; words that follow are options of pytest.

sessions.py alone [NAME …]            each package's tests with only its own dependencies and extras
sessions.py fast [OPTION …]           the unit tests of all packages and the museum, without the slow ones
sessions.py pythons [OPTION …]        all tests on each Python that is promised and here
sessions.py examples [NAME …]         the projects of `examples`, each in an environment of its own
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from shell import NO_TESTS, code_of, heading, output, packages_of, run

# A session for each group: importing the handler of a Lambda sets up logging for the whole process.
GROUPS: Final = (("core", "manifest"), ("provisioner", "aggregator"), ("cli",))

MUSEUM: Final = "packages/zae-limiter-core/tests/museum"  # scenes over public doors, and quick ones


def alone(*words: str) -> None:
    """Run each package's tests as somebody who has installed nothing else."""
    for name in packages_of([*words]):
        heading(f"zae-limiter-{name}")
        environment = ("--isolated", "--package", f"zae-limiter-{name}", "--all-extras", "--no-dev", "--group", "test")
        run("uv", "run", *environment, "pytest", "-q", f"packages/zae-limiter-{name}/tests")


def fast(*options: str) -> None:
    """Run the unit tests: ``-k`` may leave none of a group, but not of all."""
    codes = [_fast(*_parallel(group), *options) for group in GROUPS] + [_fast("tools", *options)]
    if 0 not in codes:
        print("no test ran", file=sys.stderr)
        raise SystemExit(NO_TESTS)


def _parallel(group: tuple[str, ...]) -> list[str]:
    return [
        "--numprocesses",
        "auto",
        "--dist",
        "loadfile",
        *(f"packages/zae-limiter-{name}/tests/unit" for name in group),
        *([MUSEUM] if "core" in group else []),
    ]


def _fast(*arguments: str) -> int:
    code = code_of("uv", "run", "pytest", "-q", "-m", "not slow", *arguments)
    if code not in {0, NO_TESTS}:
        raise SystemExit(code)
    return code


def pythons(*options: str) -> None:
    """Run all tests on each Python that is here, also after one that failed."""
    failed = []
    for version, path in found_pythons().items():
        for name in packages_of([]):
            heading(f"zae-limiter-{name} on Python {version}")
            if _on(path, name, *options, "-q", f"packages/zae-limiter-{name}/tests"):
                failed.append(f"{name} on {version}")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def found_pythons() -> dict[str, str]:
    """Return the Pythons that are here by version, the newest last; raise ``SystemExit`` without one."""
    lines = output("uv", "run", "python", "tools/pythons.py").splitlines()
    return dict(line.split(" ", 1) for line in lines)


def _on(python: str, name: str, *arguments: str) -> int:
    environment = ("--isolated", "--python", python, "--package", f"zae-limiter-{name}", "--no-dev", "--group", "test")
    return code_of("uv", "run", *environment, "--with", "pytest-xdist", "python", "-m", "pytest", *arguments)


def examples(*words: str) -> None:
    """Run the tests of each example where its README says."""
    names = words or sorted(path.parent.name for path in Path("examples").glob("*/pyproject.toml"))
    if not names:
        raise SystemExit("there is no example")
    for name in names:
        heading(name)
        run("uv", "run", "--quiet", "pytest", "-q", cwd=Path("examples") / name)


COMMANDS: Final[Mapping[str, Callable[..., None]]] = {
    "alone": alone,
    "fast": fast,
    "pythons": pythons,
    "examples": examples,
}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
