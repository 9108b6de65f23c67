"""Tests in environments that the workspace does not have; words that follow are options of pytest.

environments.py dependencies WHICH [NAMES] [OPTION …]   packages with the `newest` or `lowest` that they admit
environments.py frameworks WHICH                        the web integrations with the `newest` or `oldest` frameworks
environments.py llm WHICH                               those of language models with their clients, likewise
environments.py wheels [OPTION …]                       the wheels of wheelhouse, each with no others
environments.py built [OPTION …]                        the wheel in dist, with its siblings as the index has them
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sessions import found_pythons
from shell import PACKAGES, heading, output, packages_of, run, scratch

RESOLUTIONS: Final = {"newest": "highest", "lowest": "lowest-direct", "oldest": "lowest-direct"}
ALL_DEPENDENCIES: Final = [*PACKAGES, "core[aioboto3,speed]"]
FRAMEWORKS: Final = {
    *("django", "fastapi", "fastmcp", "flask", "gunicorn", "litestar", "mcp", "quart", "starlette", "uvicorn"),
}
CLIENTS: Final = {"anthropic", "langchain-anthropic", "langchain-core", "langchain-openai", "litellm", "openai"}
EXTRAS: Final = {"aioboto3", "boto3", "orjson"}
CORE: Final = "packages/zae-limiter-core"


@dataclass(frozen=True)
class Environment:
    """A virtual environment in a folder."""

    folder: Path

    def make(self, *options: str) -> None:
        """Make it, without anything in it."""
        run("uv", "venv", "--quiet", "--clear", *options, str(self.folder))

    def install(self, *wanted: str, cwd: Path | None = None) -> None:
        """Install into it, from a folder whose workspace says what is left out."""
        run("uv", "pip", "install", "--quiet", "--python", str(self.folder), *wanted, cwd=cwd)

    def show(self, names: set[str]) -> None:
        """Print the versions of those that are there."""
        for line in output("uv", "pip", "list", "--quiet", "--python", str(self.folder)).splitlines():
            if line.split(" ")[0] in names:
                print(line, flush=True)

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of it; raise ``SystemExit`` with its code where it fails."""
        run(str(self.folder / "bin" / program), *arguments)


def dependencies(which: str, names: str | None = None, *options: str) -> None:
    """Run packages' tests with other dependencies than those of the lock file."""
    resolution = _resolution("test-dependencies", which, "newest", "lowest")
    with scratch() as folder:
        for choice in ALL_DEPENDENCIES if names is None else packages_of([names]):
            name = choice.partition("[")[0]
            heading(f"zae-limiter-{choice}, its {which} dependencies")
            environment = Environment(folder / name)
            environment.make()
            group = f"packages/zae-limiter-{name}/pyproject.toml:test"
            editable = ("--editable", f"packages/zae-limiter-{choice}")
            environment.install("--resolution", resolution, *editable, "--group", group, "pytest-xdist>=3.6")
            environment.show(EXTRAS)
            environment.run("pytest", "-q", "-n", "auto", f"packages/zae-limiter-{name}/tests", *options)


def frameworks(which: str) -> None:
    """Run core's tests of the web integrations."""
    resolution = _resolution("test-frameworks", which, "newest", "oldest")
    with scratch() as folder:
        environment = Environment(folder / "venv")
        environment.make("--python", _python(which))
        groups = [f"--group={CORE}/pyproject.toml:{group}" for group in ("test", "frameworks")]
        environment.install(
            "--resolution", resolution, "--editable", f"{CORE}[fastapi,flask,django,mcp,fastmcp]", *groups
        )
        environment.run("python", "--version")
        environment.show(FRAMEWORKS)
        environment.run("pytest", "-q", "--installed", f"{CORE}/tests/frameworks")


def llm(which: str) -> None:
    """Check the types of the integrations of language models with their clients, and run core's tests of them."""
    resolution = _resolution("test-llm", which, "newest", "oldest")
    core = Path(CORE).resolve()
    with scratch() as folder:
        environment = Environment(folder / "venv")
        environment.make("--python", _python(which))
        wanted = ("--editable", f"{core}[langchain,litellm]", "--group", f"{core}/pyproject.toml:test")
        listed = ("--requirements", f"{core}/tests/llm/requirements.txt")
        # in another folder: the workspace excludes what these extras need
        environment.install("--resolution", resolution, *wanted, *listed, cwd=folder)
        environment.run("python", "--version")
        environment.show(CLIENTS)
        modules = [f"{CORE}/src/zae_limiter/integrations/{name}.py" for name in ("langchain", "litellm")]
        environment.run("mypy", "--config-file=", "--strict", "--python-version", "3.11", *modules)
        environment.run("pytest", "-q", "--installed", f"{CORE}/tests/llm")


def wheels(*options: str) -> None:
    """Run each package's tests against its wheel; siblings come from the wheelhouse, whatever an index has."""
    built = {wheel.name.split("-")[0]: wheel for wheel in sorted(Path("wheelhouse").resolve().glob("*.whl"))}
    with scratch() as folder:
        siblings = folder / "siblings.txt"
        lines = [f"{name.replace('_', '-')} @ file://{wheel}\n" for name, wheel in built.items()]
        siblings.write_text("".join(lines), encoding="utf-8")
        for name in PACKAGES:
            heading(f"zae-limiter-{name}, its wheel")
            environment = Environment(folder / name)
            _test_wheel(
                environment, name, built[f"zae_limiter_{name}"], "--constraints", str(siblings), options=options
            )


def built(*options: str) -> None:
    """Run the tests of the one distribution that is in dist."""
    (wheel,) = Path("dist").glob("*.whl")
    name = wheel.name.split("-")[0].rpartition("_")[2]
    with scratch() as folder:
        _test_wheel(Environment(folder / "venv"), name, wheel, options=options)


def _test_wheel(environment: Environment, name: str, wheel: Path, *given: str, options: tuple[str, ...]) -> None:
    environment.make()
    group = ("--group", f"packages/zae-limiter-{name}/pyproject.toml:test")
    environment.install(*given, str(wheel), *group, "pytest-xdist")
    environment.run("pytest", "-q", *options, f"packages/zae-limiter-{name}/tests")


def _resolution(recipe: str, which: str, *choices: str) -> str:
    if which not in choices:
        print(f"just {recipe} {'|'.join(choices)}, not: {which}", file=sys.stderr)
        raise SystemExit(2)
    return RESOLUTIONS[which]


def _python(which: str) -> str:
    """Return the newest Python that is here for what is newest, and this one for what is oldest."""
    return [*found_pythons().values()][-1] if which == "newest" else sys.executable


COMMANDS: Final[Mapping[str, Callable[..., None]]] = {
    "dependencies": dependencies,
    "frameworks": frameworks,
    "llm": llm,
    "wheels": wheels,
    "built": built,
}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
