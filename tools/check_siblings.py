"""What lives here: the check that distributions of this workspace bound each other, which uv does not do inside one.
What never does: a change to a file.

    check_siblings.py [WHEEL …]     without wheels, the requirements in packages/*/pyproject.toml
"""

import sys
import tomllib
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Distribution:
    """Name, version and requirements of one distribution, as it declares them."""

    name: str
    version: str
    requires: tuple[str, ...]


def from_project(text: str) -> Distribution:
    """Return what a pyproject.toml declares."""
    project = tomllib.loads(text)["project"]
    return Distribution(canonicalize_name(project["name"]), project["version"], tuple(project.get("dependencies", ())))


def from_wheel(wheel: Path) -> Distribution:
    """Return what a built wheel's metadata declares."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))
    requires = tuple(metadata.get_all("Requires-Dist", []))
    return Distribution(canonicalize_name(metadata["Name"]), metadata["Version"], requires)


def problems(distributions: Iterable[Distribution]) -> list[str]:
    """Return one line for each sibling requirement without floor or cap, or that the sibling's version does not
    meet.
    """
    known = list(distributions)
    versions = {each.name: each.version for each in known}
    return [
        f"{each.name}: `{requirement}` {problem}"
        for each in known
        for requirement in map(Requirement, each.requires)
        for problem in _problems(requirement, versions)
    ]


def _problems(requirement: Requirement, versions: Mapping[str, str]) -> Iterable[str]:
    version = versions.get(canonicalize_name(requirement.name))
    if version is None:
        return
    operators = {bound.operator for bound in requirement.specifier}
    if not operators & {">=", ">", "~=", "=="}:
        yield "has no floor"
    if not operators & {"<", "<=", "~=", "=="}:
        yield "has no cap"
    if not requirement.specifier.contains(version, prereleases=True):
        yield f"does not admit {version}, which is here"


def main(wheels: Sequence[str]) -> int:
    """Print every problem; 1 where there is one."""
    if wheels:
        found = [from_wheel(Path(wheel)) for wheel in wheels]
    else:
        found = [from_project(path.read_text()) for path in sorted(ROOT.glob("packages/*/pyproject.toml"))]
    lines = problems(found) if found else ["no distribution is here"]
    print(*lines or [f"{len(found)} distributions bound each other"], sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
