"""Find the files of an installed distribution that go into a Lambda."""

from importlib.metadata import Distribution
from pathlib import Path, PurePosixPath
from typing import Final

from ..errors import CommandError

LEFT_OUT: Final = frozenset({".so", ".pyd", ".dylib", ".dll", ".pyc", ".pyo", ".pyi"})  # compiled, or for type checkers
# Of a dist-info directory: what `importlib.metadata` reads, and licences; the rest describes this installation.
METADATA: Final = frozenset({"METADATA", "entry_points.txt"})
PATH_FILE: Final = ".pth"
# Folders of core that no Lambda loads: Lambdas block, the command line replays, and a file of SQLite is of one host.
NOT_FOR_LAMBDAS: Final = frozenset({"aio", "integrations", "replay", "sqlite", "streams", "testing"})
# The module of core by which integrations answer over HTTP.
NOT_OF_CORE: Final = "zae_limiter/http.py"
# Modules of the manifest with which the command line alone shows plans.
NOT_OF_MANIFEST: Final = frozenset({"as_json", "as_markdown", "as_text", "consequences", "sections", "views"})


def files_of(distribution: Distribution) -> dict[str, Path]:
    """Return the files by name within the zip; leave out what is compiled, or for other programs alone.

    Follow an editable installation to its source. Raises ``CommandError`` where that fails.
    """
    recorded = [PurePosixPath(str(file)) for file in distribution.files or ()]
    if not recorded:
        raise CommandError(f"{distribution.name} has no record of its files: reinstall it from a wheel")
    places = {name: Path(str(distribution.locate_file(name))) for name in recorded if _belongs(name)}
    for name in recorded:
        if name.suffix == PATH_FILE:
            places |= _followed(distribution.name, Path(str(distribution.locate_file(name))))
    if not any(name.suffix == ".py" for name in places):
        raise CommandError(f"the source of {distribution.name} was not found: reinstall it from a wheel")
    return {str(name): place for name, place in places.items()}


def _belongs(name: PurePosixPath) -> bool:
    if ".." in name.parts or "__pycache__" in name.parts or name.suffix in LEFT_OUT | {PATH_FILE}:
        return False  # scripts are outside, and a path file stands for what is elsewhere
    if name.parts[0] == "zae_limiter" and not NOT_FOR_LAMBDAS.isdisjoint(name.parts[1:-1]):
        return False
    if str(name) == NOT_OF_CORE:
        return False
    if name.parts[0] == "zae_limiter_manifest" and name.stem in NOT_OF_MANIFEST:
        return False
    if name.parts[0].endswith(".dist-info"):
        return name.name in METADATA or "licenses" in name.parts
    return True


def _followed(distribution: str, path_file: Path) -> dict[PurePosixPath, Path]:
    """Return all files under the directories that a path file names; each must hold sources alone."""
    found: dict[PurePosixPath, Path] = {}
    for line in path_file.read_text(encoding="utf-8").splitlines():
        directory = Path(line)
        if not directory.is_dir() or (directory / "pyproject.toml").exists():
            raise CommandError(
                f"the files of the editable installation of {distribution} were not found: install its wheel"
            )
        found |= {
            PurePosixPath(place.relative_to(directory).as_posix()): place
            for place in directory.rglob("*")
            if place.is_file()
        }
    return {name: place for name, place in found.items() if _belongs(name)}
