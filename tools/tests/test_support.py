"""What lives here: what docs/support.md promises is what the packages declare."""

import re
import tomllib

from check_siblings import ROOT
from pythons import PROMISED

PAGE = (ROOT / "docs/support.md").read_text(encoding="utf-8")
CORE = tomllib.loads((ROOT / "packages/zae-limiter-core/pyproject.toml").read_text(encoding="utf-8"))["project"]


def row(name: str) -> str:
    (found,) = re.findall(rf"^\| {name}[^|]*\| ([^|]+) \|", PAGE, re.MULTILINE)
    return str(found)


def test_page_promises_the_tested_pythons() -> None:
    assert row("Python") == f"{', '.join(PROMISED)} (CPython)"


def test_page_has_the_declared_lower_bounds() -> None:
    for extra, name in (("dynamodb", "boto3"), ("aioboto3", "aioboto3")):
        (requirement,) = CORE["optional-dependencies"][extra]
        assert row(name) == f"{requirement.removeprefix(f'{name}>=')} and newer"
