"""What is built for users: distributions, and the files and the page of a release.

builds.py dist [NAME …]     an sdist of each, and the wheel that is built from it, in dist
builds.py files TAG         what a tag publishes: sdist and wheel in dist, their hashes and the SBOM in evidence
builds.py page TAG          the page of a release on GitHub, with its files
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from shell import output, packages_of, run, scratch
from tagged import name_of

DIST, EVIDENCE = Path("dist"), Path("evidence")
SECTION: Final = re.compile(r"^## .*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def dist(*words: str) -> None:
    """Build what is named, by the build backend of uv.lock, by hash; the same commit gives the same bytes."""
    names = packages_of([*words])
    shutil.rmtree(DIST, ignore_errors=True)
    committed = output("git", "log", "-1", "--format=%ct").strip()
    with scratch() as folder:
        constraints = folder / "constraints.txt"
        constraints.write_text(output("uv", "export", "--quiet", "--locked", "--only-group", "build", "--no-header"))
        by_hash = ("--build-constraints", str(constraints), "--require-hashes")
        for name in names:
            where = ("--no-create-gitignore", "--out-dir", str(DIST))
            package = ("--quiet", "--package", f"zae-limiter-{name}")
            run("uv", "build", *package, *by_hash, *where, environ={"SOURCE_DATE_EPOCH": committed})
    print(sums(DIST), end="", flush=True)


def files(tag: str) -> None:
    """Build the distribution of a tag, whose tree this must be."""
    name = _name(tag)
    dist(name)
    run("uv", "run", "--group", "release", "twine", "check", "--strict", *map(str, sorted(DIST.iterdir())))
    shutil.rmtree(EVIDENCE, ignore_errors=True)
    EVIDENCE.mkdir()
    (sdist,) = DIST.glob("*.tar.gz")
    bill = EVIDENCE / f"{sdist.name.removesuffix('.tar.gz')}.cdx.json"
    environment = ("--locked", "--package", f"zae-limiter-{name}", "--all-extras", "--no-dev")
    bill.write_text(output("uv", "export", "--quiet", *environment, "--format", "cyclonedx1.5"), encoding="utf-8")
    (EVIDENCE / "SHA256SUMS").write_text(sums(DIST) + sums(EVIDENCE, "*.json"), encoding="utf-8")


def page(tag: str) -> None:
    """Publish the page; the newest section of the changelog is its text."""
    changelog = Path("packages") / f"zae-limiter-{_name(tag)}" / "CHANGELOG.md"
    published = map(str, sorted([*DIST.iterdir(), *EVIDENCE.iterdir()]))
    command = ["gh", "release", "create", tag, "--verify-tag", "--title", tag, "--notes-file", "-", *published]
    section = newest_section(changelog.read_text(encoding="utf-8"))
    if code := subprocess.run(command, input=section, text=True, check=False).returncode:
        raise SystemExit(code)


def newest_section(changelog: str) -> str:
    """Return the section of the newest version with its heading; raise ``SystemExit`` where there is none."""
    if match := SECTION.search(changelog):
        return match[0]
    raise SystemExit("the changelog has no release")


def sums(folder: Path, pattern: str = "*") -> str:
    """Return the lines that ``sha256sum --check`` reads; raise ``SystemExit`` without a file."""
    found = sorted(folder.glob(pattern))
    if not found:
        raise SystemExit(f"{folder} is empty")
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in found)


def _name(tag: str) -> str:
    try:
        return name_of(tag, Path.cwd(), os.environ)
    except ValueError as error:
        raise SystemExit(f"error: {error}") from None


COMMANDS: Final[Mapping[str, Callable[..., None]]] = {"dist": dist, "files": files, "page": page}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
