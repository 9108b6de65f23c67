from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from zae_limiter_cli.artifacts.files import files_of
from zae_limiter_cli.errors import CommandError


def write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def installed(site: Path, *names: str) -> PathDistribution:
    """A distribution with these files, and a record of them."""
    information = site / "app-1.0.dist-info"
    write(site, *(name for name in names if not name.startswith("..")))
    write(information, "METADATA", "RECORD", "INSTALLER", "direct_url.json", "licenses/LICENSE")
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: app\nVersion: 1.0\n")
    own = [f"{information.name}/{path}" for path in ("METADATA", "RECORD", "INSTALLER", "direct_url.json")]
    (information / "RECORD").write_text(
        "".join(f"{name},,\n" for name in (*names, *own, f"{information.name}/licenses/LICENSE"))
    )
    return PathDistribution(information)


def test_sources_data_metadata_and_licences_go_in_and_traces_of_the_installation_do_not(tmp_path: Path) -> None:
    found = files_of(installed(tmp_path, "app/__init__.py", "app/data.json"))
    assert set(found) == {
        "app/__init__.py",
        "app/data.json",
        "app-1.0.dist-info/METADATA",
        "app-1.0.dist-info/licenses/LICENSE",
    }
    assert found["app/data.json"].read_text() == "app/data.json"


@pytest.mark.parametrize(
    "name",
    ["app/fast.cpython-311-x86_64-linux-gnu.so", "app/__pycache__/x.cpython-311.pyc", "app/x.pyi", "../../bin/app"],
)
def test_what_is_compiled_or_a_script_stays_out(name: str, tmp_path: Path) -> None:
    found = files_of(installed(tmp_path, "app/__init__.py", name))
    assert "app/__init__.py" in found
    assert name not in found


def test_an_editable_installation_is_followed_to_its_source(tmp_path: Path) -> None:
    source, site = tmp_path / "project" / "src", tmp_path / "site"
    write(source, "app/__init__.py", "app/inner/part.py", "app/py.typed", "app/__pycache__/part.cpython-311.pyc")
    distribution = installed(site, "_editable_impl_app.pth")
    (site / "_editable_impl_app.pth").write_text(f"{source}\n")
    found = files_of(distribution)
    assert {name for name in found if "dist-info" not in name} == {
        "app/__init__.py",
        "app/inner/part.py",
        "app/py.typed",
    }
    assert found["app/inner/part.py"] == source / "app/inner/part.py"


@pytest.mark.parametrize("line", ["import __editable___app_finder; install()", "/nowhere/at/all"])
def test_an_editable_installation_of_another_kind_is_refused(line: str, tmp_path: Path) -> None:
    distribution = installed(tmp_path, "app.pth")
    (tmp_path / "app.pth").write_text(line)
    with pytest.raises(CommandError, match="editable installation of app were not found: install its wheel"):
        files_of(distribution)


def test_a_project_that_keeps_its_sources_beside_everything_else_is_refused(tmp_path: Path) -> None:
    site, project = tmp_path / "site", tmp_path / "project"
    distribution = installed(site, "app.pth")
    write(project, "app/__init__.py", "pyproject.toml", "tests/test_app.py")
    (site / "app.pth").write_text(str(project))
    with pytest.raises(CommandError, match="editable installation of app were not found"):
        files_of(distribution)


def test_a_distribution_without_a_record_or_without_sources_is_refused(tmp_path: Path) -> None:
    distribution = installed(tmp_path, "app/fast.so")
    with pytest.raises(CommandError, match="the source of app was not found"):
        files_of(distribution)
    (tmp_path / "app-1.0.dist-info" / "RECORD").unlink()
    with pytest.raises(CommandError, match="app has no record of its files"):
        files_of(distribution)
