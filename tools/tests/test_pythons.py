import importlib.util
import re
import sys
import tomllib
import venv
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
RUNNING = f"{sys.version_info[0]}.{sys.version_info[1]}"
PROJECTS = [tomllib.loads(path.read_text())["project"] for path in sorted(ROOT.glob("packages/*/pyproject.toml"))]


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pythons", ROOT / "tools" / "pythons.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pythons = _load()


def _interpreter(path: Path, answer: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{answer}\n")
    path.chmod(0o755)


def _found(**environ: str) -> dict[str, str]:
    found = pythons.find({"PATH": "", "HOME": "/nonexistent", "UV": "/nonexistent", **environ})
    return {version: str(python.path) for version, python in found.items()}


def test_of_several_patches_the_newest_is_taken(tmp_path: Path) -> None:
    for patch in ("3.12.9", "3.12.10", "3.12.1"):
        _interpreter(tmp_path / "versions" / patch / "bin" / "python3.12", f"echo {patch} /of/{patch}")
    assert _found(PYENV_ROOT=str(tmp_path)) == {"3.12": "/of/3.12.10"}


def test_pyenv_is_sought_in_the_home_where_nothing_else_is_said(tmp_path: Path) -> None:
    _interpreter(tmp_path / ".pyenv" / "versions" / "3.13.0" / "bin" / "python3.13", "echo 3.13.0 /of/home")
    assert _found(HOME=str(tmp_path)) == {"3.13": "/of/home"}


def test_what_uv_lists_is_found(tmp_path: Path) -> None:
    _interpreter(tmp_path / "anywhere", "echo 3.14.2 /of/uv")
    listing = f'[{{"path": "{tmp_path}/anywhere"}}, {{"path": "{tmp_path}/gone"}}, {{"path": null}}]'
    _interpreter(tmp_path / "uv", f"echo '{listing}'")
    assert _found(UV=str(tmp_path / "uv")) == {"3.14": "/of/uv"}


def test_a_shim_without_an_interpreter_is_none(tmp_path: Path) -> None:
    _interpreter(tmp_path / "python3.11", "exit 127")
    assert _found(PATH=str(tmp_path)) == {}


def test_a_version_that_is_not_promised_is_left_alone(tmp_path: Path) -> None:
    _interpreter(tmp_path / "python3.11", "echo 3.10.1 /of/another")
    assert _found(PATH=str(tmp_path)) == {}


def test_an_environment_stands_for_the_interpreter_that_it_was_made_of(tmp_path: Path) -> None:
    venv.create(tmp_path / "link", symlinks=True, with_pip=False)
    venv.create(tmp_path / "copy", symlinks=False, with_pip=False)
    assert pythons.ask(tmp_path / "copy" / "bin" / "python") is None
    linked = _found(PATH=str(tmp_path / "link" / "bin"))[RUNNING]
    assert not linked.startswith(str(tmp_path))


def test_what_is_missing_is_named_apart_from_what_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "3.12" if RUNNING != "3.12" else "3.13"
    for version in (RUNNING, other):
        _interpreter(tmp_path / f"python{version}", f"echo {version}.1 /of/{version}")
    for name, value in {"PATH": str(tmp_path), "PYENV_ROOT": str(tmp_path), "UV": "/nonexistent"}.items():
        monkeypatch.setenv(name, value)
    assert pythons.main() == 0
    said = capsys.readouterr()
    assert sorted(said.out.splitlines()) == sorted(f"{each} /of/{each}" for each in (RUNNING, other))
    assert "Python 3.14" in said.err
    assert f"Python {other}" not in said.err


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: str(project["name"]))
def test_every_distribution_promises_the_versions_that_are_tested(project: dict[str, object]) -> None:
    classifiers = project["classifiers"]
    assert isinstance(classifiers, list)
    told = [match[1] for each in classifiers if (match := re.fullmatch(r"Programming .* :: (3\.\d+)", each))]
    assert tuple(told) == pythons.PROMISED
    assert project["requires-python"] == f">={pythons.PROMISED[0]}"


def test_the_workflow_runs_on_every_version_that_is_promised() -> None:
    workflow = (ROOT / ".github" / "workflows" / "everything.yml").read_text()
    (matrix,) = re.findall(r"^ +python: \[(.*)\]$", workflow, re.MULTILINE)
    assert tuple(each.strip(' "') for each in matrix.split(",")) == pythons.PROMISED
