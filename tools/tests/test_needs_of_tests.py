"""A package's tests import what its own test group installs: its wheel is tested with nothing beside it."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCK = {each["name"]: each for each in tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]}
OURS = "zae_limiter"
ASKED_FOR = ("frameworks", "llm")  # folders whose modules skip themselves where their library is missing


def _installed(package: str) -> set[str]:
    """The distributions of a package's test environment, those that others need included."""
    waiting = [
        need["name"] for need in [*LOCK[package].get("dependencies", ()), *LOCK[package]["dev-dependencies"]["test"]]
    ]
    found: set[str] = set()
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting.extend(need["name"] for need in LOCK[name].get("dependencies", ()))
    return found


def _imported(folder: Path) -> Iterator[tuple[str, str]]:
    """What a module of tests imports as it is collected: file, top name."""
    own = {path.stem for path in folder.iterdir()}
    for path in (*folder.rglob("test_*.py"), *folder.rglob("conftest.py")):
        if path.parent.name in ASKED_FOR:
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for top in {name.partition(".")[0] for name in names}:
                if top not in sys.stdlib_module_names and top not in own and not top.startswith(OURS):
                    yield path.name, top


@pytest.mark.parametrize("package", ["core", "manifest", "provisioner", "aggregator", "cli"])
def test_tests_import_what_their_group_installs(package: str) -> None:
    installed = _installed(f"zae-limiter-{package}")
    known = packages_distributions()
    missing = {
        (file, top)
        for file, top in _imported(ROOT / "packages" / f"zae-limiter-{package}" / "tests")
        if not {name.lower().replace("_", "-") for name in known.get(top, ())} & installed
    }
    assert not missing
