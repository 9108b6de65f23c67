"""Ask the advisory databases which dependencies have known holes; it needs a network.

audit.py     the lock file, the lowest and the newest releases that each extra admits, the lock file of the CDK example
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from shell import heading, run, scratch

ROOT: Final = Path(__file__).parents[1]
UV_AUDIT: Final = ("uv", "audit", "--preview-features", "audit-command")
CDK: Final = "examples/cdk"
RESOLUTIONS: Final = ("lowest-direct", "highest")
OURS: Final = "zae-limiter-"
NEWEST_ALONE: Final = {"zae-limiter-core[langchain]", "zae-limiter-core[litellm]"}
"""Extras whose oldest releases have known holes; docs/guides/llm.md says so."""


def main() -> None:
    """Raise ``SystemExit`` for a dependency with a known hole."""
    heading("uv.lock")
    run(*UV_AUDIT, "--locked")
    with scratch() as folder:
        for name, wanted in requirements():
            script = folder / "wanted.py"
            script.write_text(_script(wanted), encoding="utf-8")
            for resolution in RESOLUTIONS[1:] if name in NEWEST_ALONE else RESOLUTIONS:
                heading(f"{name}, {resolution}")
                # in another folder: the workspace excludes what some extras need
                run(*UV_AUDIT, "--script", str(script), "--resolution", resolution, cwd=folder)
    heading(CDK)
    run("npm", "audit", "--package-lock-only", "--prefix", CDK)


def requirements(root: Path = ROOT) -> Iterator[tuple[str, list[str]]]:
    """Yield each package and each of its extras with what it requires; an extra alone, for some exclude each other."""
    for path in sorted(root.glob("packages/*/pyproject.toml")):
        project = tomllib.loads(path.read_text("utf-8"))["project"]
        yield project["name"], _foreign(project["dependencies"])
        for extra, wanted in project.get("optional-dependencies", {}).items():
            yield f"{project['name']}[{extra}]", _foreign(wanted)


def _foreign(wanted: list[str]) -> list[str]:
    return [each for each in wanted if not each.startswith(OURS)]


def _script(wanted: list[str]) -> str:
    lines = "".join(f"#   {each!r},\n" for each in wanted)
    return f'# /// script\n# requires-python = ">=3.11"\n# dependencies = [\n{lines}# ]\n# ///\n'


if __name__ == "__main__":
    main()
