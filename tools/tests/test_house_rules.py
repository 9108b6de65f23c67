import pytest

import house_rules
from check_siblings import ROOT
from house_rules import MAX_LINES, RULES, departures, sources


def found(**files: str) -> list[str]:
    """Return the departures of files in a package."""
    return departures({f"zae_limiter_cli/{name}.py": text for name, text in files.items()})


def test_the_source_keeps_the_rules() -> None:
    assert departures(sources(ROOT)) == []


def test_a_long_file_is_found_at_the_first_line_too_many() -> None:
    assert found(right="\n" * MAX_LINES) == []
    (line,) = found(long="\n" * (MAX_LINES + 1))
    assert line.startswith(f"zae_limiter_cli/long.py: {MAX_LINES + 1} lines, of at most {MAX_LINES}: ")
    assert line.endswith("(long-file)")


@pytest.mark.parametrize(
    "text",
    [
        "from zae_limiter_cli.errors import Fault",
        "from zae_limiter_cli import errors",
        "import zae_limiter_cli.errors as errors",
        "def f():\n    import os, zae_limiter_cli",
    ],
)
def test_an_import_of_the_own_package_by_its_name_is_found(text: str) -> None:
    (line,) = found(a=text)
    assert line.startswith(f"zae_limiter_cli/a.py:{len(text.splitlines())}: imports zae_limiter_cli")
    assert line.endswith("(relative-imports)")


@pytest.mark.parametrize(
    "text", ["from . import errors", "from ..errors import Fault", "from zae_limiter_manifest import load", "import os"]
)
def test_other_imports_are_not(text: str) -> None:
    assert found(a=text) == []


@pytest.mark.parametrize(
    ("text", "name", "home"),
    [
        ("from dataclasses import asdict, dataclass", "dataclass", "dataclass"),
        ("from typing import Any, NamedTuple", "NamedTuple", "named_tuple"),
    ],
)
def test_a_class_that_is_compiled_while_a_program_starts_is_found_in_core_alone(
    text: str, name: str, home: str
) -> None:
    home = f"zae_limiter/runtime/{home}.py"
    assert departures({home: text, "zae_limiter_cli/a.py": text}) == []
    (line,) = departures({"zae_limiter/values/a.py": text})
    assert line.startswith(f"zae_limiter/values/a.py:1: imports {name} of ")


def test_a_source_that_is_not_there_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(house_rules, "ROOT", ROOT / "nowhere")
    assert house_rules.main() == 1
    assert "no package is here" in capsys.readouterr().out


def test_each_rule_has_its_name_in_the_page() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [name for name in RULES if f"house rule `{name}`" not in page] == []
    assert f"at most {MAX_LINES} lines" in page
