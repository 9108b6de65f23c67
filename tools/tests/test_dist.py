import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest

from check_siblings import ROOT

PACKAGES = sorted(ROOT.glob("packages/zae-limiter-*"))
IDS = [package.name for package in PACKAGES]
MODULES = {package.name: next((package / "src").iterdir()).name for package in PACKAGES}


def _project(package: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    return project


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    just = Path(sys.executable).with_name("just")
    return subprocess.run([just, *command], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of what is committed, with everything built."""
    folder = tmp_path_factory.mktemp("dist") / "clone"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, folder], check=True)
    done = _run(folder, "dist")
    assert done.returncode == 0, done.stderr
    return folder


def _contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.slow
def test_a_wheel_of_the_sdist_is_the_wheel_of_the_tree(clone: Path, tmp_path: Path) -> None:
    subprocess.run(
        ["uv", "build", "--quiet", "--all-packages", "--wheel", "--out-dir", tmp_path], cwd=clone, check=True
    )
    wheels = sorted((clone / "dist").glob("*.whl"))
    assert len(wheels) == len(PACKAGES)
    for wheel in wheels:
        assert _contents(wheel) == _contents(tmp_path / wheel.name)


@pytest.mark.slow
def test_the_same_commit_gives_the_same_bytes_anywhere(clone: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    subprocess.run(["git", "clone", "--quiet", clone, other], check=True, umask=0o077)
    assert _run(other, "dist").returncode == 0
    for file in (clone / "dist").iterdir():
        assert file.read_bytes() == (other / "dist" / file.name).read_bytes(), file.name


@pytest.mark.slow
def test_a_build_backend_of_another_hash_is_refused(clone: Path, tmp_path: Path) -> None:
    other = tmp_path / "tampered"
    subprocess.run(["git", "clone", "--quiet", clone, other], check=True)
    lock = (other / "uv.lock").read_text()
    start = lock.index('name = "hatchling"')
    tampered = re.sub(r"sha256:\w{64}", f"sha256:{'0' * 64}", lock[start:], count=2)
    (other / "uv.lock").write_text(lock[:start] + tampered)
    done = _run(other, "dist", "manifest")
    assert done.returncode != 0
    assert "Hash mismatch for `hatchling" in done.stderr


@pytest.mark.slow
def test_a_release_has_hashes_and_a_bill_of_materials(clone: Path, tmp_path: Path) -> None:
    other = tmp_path / "tagged"
    subprocess.run(["git", "clone", "--quiet", clone, other], check=True)
    version = _project(ROOT / "packages" / "zae-limiter-manifest")["version"]
    done = _run(other, "release-files", f"zae-limiter-manifest/v{version}")
    assert done.returncode == 0, done.stderr
    (bill,) = (other / "evidence").glob("*.json")
    assert bill.name == f"zae_limiter_manifest-{version}.cdx.json"
    found = json.loads(bill.read_text())
    assert (found["bomFormat"], found["metadata"]["component"]["version"]) == ("CycloneDX", version)
    assert {"attrs", "cattrs", "pyyaml"} <= {each["name"] for each in found["components"]}
    assert all(file["hashes"] for each in found["components"] for file in each["externalReferences"])
    files = [*(other / "dist").iterdir(), bill]
    digests = {f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files}
    assert set((other / "evidence" / "SHA256SUMS").read_text().splitlines()) == digests
    assert len(digests) == 3


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES, ids=IDS)
def test_an_sdist_has_the_source_and_a_wheel_has_the_package(clone: Path, package: Path) -> None:
    stem = f"{package.name.replace('-', '_')}-{_project(package)['version']}"
    module = MODULES[package.name]
    with tarfile.open(clone / "dist" / f"{stem}.tar.gz") as archive:
        names = {name.removeprefix(f"{stem}/") for name in archive.getnames()}
    source = {name for name in names if name.startswith("src/")}
    tracked = subprocess.run(["git", "ls-files", "src"], cwd=package, capture_output=True, text=True, check=True)
    assert source == set(tracked.stdout.split())
    assert names - source == {*(".gitignore", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml")}
    wheel = _contents(clone / "dist" / f"{stem}-py3-none-any.whl")
    assert {name for name in wheel if ".dist-info/" not in name} == {name.removeprefix("src/") for name in source}
    assert f"{module}/py.typed" in wheel
    assert wheel[f"{stem}.dist-info/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()
    metadata = message_from_bytes(wheel[f"{stem}.dist-info/METADATA"])
    assert metadata["License-Expression"] == "MIT"
    assert len(metadata.get_all("Project-URL", [])) == len(_project(package)["urls"])


@pytest.mark.parametrize("package", PACKAGES, ids=IDS)
def test_links_of_a_readme_hold_on_an_index(package: Path) -> None:
    page = (package / "README.md").read_text("utf-8")
    named = dict(re.findall(r"^(\[[^\]]+\]): (\S+)$", page, re.MULTILINE))
    assert set(re.findall(r"\[docs/[a-z]+\.md\](?![(:])", page)) <= named.keys()
    links = [*named.values(), *re.findall(r"\]\(([^)\s]+)\)", page)]
    assert links
    assert [link for link in links if not link.startswith("https://")] == []
    repository = _project(package)["urls"]["Repository"]
    files = [re.sub("^/blob/main/|^/|#.*", "", link.removeprefix(repository)) for link in links]
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_all_distributions_name_one_repository_and_the_changelog_of_their_own() -> None:
    urls = {package.name: _project(package)["urls"] for package in PACKAGES}
    (repository,) = {each["Repository"] for each in urls.values()}
    for name, each in urls.items():
        assert each["Issues"] == f"{repository}/issues"
        assert each["Documentation"] == f"{repository}/tree/main/docs"
        assert each["Changelog"] == f"{repository}/blob/main/packages/{name}/CHANGELOG.md"


@pytest.mark.parametrize("package", PACKAGES, ids=IDS)
def test_an_index_finds_a_distribution_by_its_trade(package: Path) -> None:
    project = _project(package)
    assert {"rate-limiting", "rate-limiter"} <= set(project["keywords"])
    assert any(each.startswith("Topic :: ") for each in project["classifiers"])


def test_a_version_is_written_in_one_place() -> None:
    for package in PACKAGES:
        version = _project(package)["version"]
        assert (package / "pyproject.toml").read_text().count(f'version = "{version}"') == 1
        assert not re.search(
            r"__version__\s*=", "".join(path.read_text() for path in package.glob("src/*/__init__.py"))
        )


@pytest.mark.slow
def test_the_page_installs_from_a_clone_as_it_says(clone: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "install.md").read_text("utf-8").partition("## From a clone")[2]
    commands = re.findall(
        r"^```sh\n(.*?)^```$", re.split(r"^## ", page, flags=re.MULTILINE)[0], re.MULTILINE | re.DOTALL
    )
    assert len(commands) == 2
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "wheelhouse" not in readme or all(f"\n{line}\n" in readme for line in commands[0].splitlines()[1:3])
    subprocess.run(["uv", "venv", "--quiet", "--seed", tmp_path / "venv"], check=True)
    environ = {**os.environ, "PATH": f"{tmp_path}/venv/bin:{os.environ['PATH']}", "VIRTUAL_ENV": ""}
    script = "set -e\n" + "".join(commands) + "python -c 'import orjson, zae_limiter; print(zae_limiter.__version__)'"
    done = subprocess.run(["bash", "-c", script], cwd=clone, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == _project(ROOT / "packages" / "zae-limiter-core")["version"]
    for package in PACKAGES:
        assert re.search(rf"^{package.name} +{re.escape(_project(package)['version'])}$", done.stdout, re.MULTILINE)
