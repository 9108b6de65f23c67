"""What lives here: the repository contains nothing of other projects but what is listed, with its origin and hash.
What never does: what such a file does.
"""

import hashlib
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from check_siblings import ROOT

SITE = ROOT / "docs" / "assets" / "vendor"
CONSOLE = ROOT / "packages/zae-limiter-cli/src/zae_limiter_cli/console/static/vendor"
FOLDERS = (SITE, CONSOLE)
LIST = "vendored.toml"
LISTED = {
    folder / name: each for folder in FOLDERS for name, each in tomllib.loads((folder / LIST).read_text()).items()
}
PAGES = {"mermaid.min.js": "site.md", "echarts.common.min.js": "charts.md"}  # of decisions
OWN = {"MIT": "The MIT License", "Apache-2.0": "Apache License\n                           Version 2.0"}
FIELDS = {"version", "license", "license_files", "origin", "member", "sha256"}

FOREIGN = re.compile(r"/\*!|@license|@preserve|SPDX-License|Copyright \(c\)|sourceMappingURL=", re.IGNORECASE)
OURS = {"LICENSE", "tools/tests/test_vendored.py"}
LONGEST_LINE = 20_000  # of ours: a picture has 5,000, a list of names 15,000
CODE = {".js", ".mjs", ".cjs", ".css", ".ts"}
OUR_CODE = {
    "docs/assets/cost.js",
    "docs/assets/site.css",
    "examples/cdk/bin/app.ts",
    "examples/cdk/lib/zae-limiter.ts",
    "packages/zae-limiter-cli/src/zae_limiter_cli/console/static/charts.js",
    "packages/zae-limiter-cli/src/zae_limiter_cli/console/static/console.css",
    "packages/zae-limiter-cli/src/zae_limiter_cli/console/static/console.js",
    "tools/iam.mjs",
}


def tracked() -> list[Path]:
    """All files of the repository."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in names.split("\0") if name and (ROOT / name).is_file()]


def looks_foreign(name: str, content: bytes) -> bool:
    """Whether a file may be of another project: binary, minified, with a notice, or code that is not ours."""
    if b"\0" in content or (Path(name).suffix in CODE and name not in OUR_CODE):
        return True
    text = content.decode("utf-8", "replace")
    if name.endswith(("uv.lock", "package-lock.json")):
        return False
    notice = Path(name).name not in OURS and name not in OURS and FOREIGN.search(text) is not None
    return notice or any(len(line) > LONGEST_LINE for line in text.splitlines())


@pytest.mark.parametrize("path", LISTED, ids=lambda path: path.name)
def test_a_vendored_file_is_what_its_origin_has(path: Path) -> None:
    listed = LISTED[path]
    assert set(listed) == FIELDS
    assert listed["version"] in listed["origin"]
    assert listed["origin"].startswith("https://")
    assert hashlib.sha256(path.read_bytes()).hexdigest() == listed["sha256"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
def test_the_folder_has_what_is_listed_and_nothing_else(folder: Path) -> None:
    listed = {path.name: each for path, each in LISTED.items() if path.parent == folder}
    licenses = {file for each in listed.values() for file in each["license_files"]}
    assert {path.name for path in folder.iterdir()} == {*listed, *licenses, LIST}


@pytest.mark.parametrize("path", LISTED, ids=lambda path: path.name)
def test_a_vendored_file_has_its_licences_beside_it(path: Path) -> None:
    own, parts, *_ = ((path.parent / file).read_text("utf-8") for file in LISTED[path]["license_files"])
    assert OWN[LISTED[path]["license"]] in own
    bundled = re.findall(r"@license (\w+) ([0-9.]+)", path.read_text("utf-8"))
    assert bundled or path.parent == CONSOLE  # ECharts names none: its list of packages is that of its release
    assert [each for each in bundled if f"\n{' '.join(each).lower()}\n" not in parts] == []


def test_no_other_file_of_the_repository_is_of_another_project() -> None:
    others = [path for path in tracked() if path.parent not in FOLDERS]
    assert [str(path) for path in others if looks_foreign(str(path.relative_to(ROOT)), path.read_bytes())] == []


@pytest.mark.parametrize("path", LISTED, ids=lambda path: path.name)
def test_the_page_of_the_decision_names_the_version(path: Path) -> None:
    page = (ROOT / "docs" / "decisions" / PAGES[path.name]).read_text("utf-8")
    assert f"version {LISTED[path]['version']}" in " ".join(page.split())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("docs/assets/jquery.js", b"x"),
        ("docs/x.md", b"/*! a library */"),
        ("tools/x.py", b"# Copyright (c) Somebody"),
        ("testdata/x.json", b"x" * 30_000),
        ("examples/x.whl", b"PK\x03\x04\x14\0"),
    ],
)
def test_what_is_foreign_is_found(name: str, content: bytes) -> None:
    assert looks_foreign(name, content)
