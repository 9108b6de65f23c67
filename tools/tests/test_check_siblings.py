import importlib.util
import zipfile
from pathlib import Path
from types import ModuleType

import pytest


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_siblings", Path(__file__).parents[1] / "check_siblings.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check = _load()


def _problems(requirement: str, version: str = "0.1.5") -> list[str]:
    core = check.Distribution("zae-limiter-core", version, ())
    found: list[str] = check.problems([core, check.Distribution("zae-limiter-cli", "0.1.0", (requirement,))])
    return found


@pytest.mark.parametrize("bounds", [">=0.1.0,<0.2", "~=0.1.0", "==0.1.5"])
def test_a_floor_and_a_cap_that_admit_the_sibling_pass(bounds: str) -> None:
    assert _problems(f"zae-limiter-core{bounds}") == []


@pytest.mark.parametrize(
    ("requirement", "complaint"),
    [
        ("zae-limiter-core", "has no floor"),
        ("zae-limiter-core>=0.1", "has no cap"),
        ("Zae_Limiter.Core<0.2", "has no floor"),
        ("zae-limiter-core>=0.2,<0.3", "does not admit 0.1.5"),
        ("zae-limiter-core>=0.1,<0.1.5", "does not admit 0.1.5"),
    ],
)
def test_a_loose_or_a_stale_bound_is_named(requirement: str, complaint: str) -> None:
    assert any(complaint in line and line.startswith("zae-limiter-cli: ") for line in _problems(requirement))


def test_what_is_not_of_the_workspace_is_not_its_business() -> None:
    assert _problems("click") == []


def test_a_wheel_is_read_by_its_metadata(tmp_path: Path) -> None:
    wheel = tmp_path / "zae_limiter_cli-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(
            "zae_limiter_cli-0.1.0.dist-info/METADATA",
            "Metadata-Version: 2.4\nName: zae-limiter-cli\nVersion: 0.1.0\nRequires-Dist: zae-limiter-core>=0.1\n",
        )
    assert check.from_wheel(wheel) == check.Distribution("zae-limiter-cli", "0.1.0", ("zae-limiter-core>=0.1",))


def test_the_workspace_itself_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main([]) == 0
    assert "5 distributions" in capsys.readouterr().out
