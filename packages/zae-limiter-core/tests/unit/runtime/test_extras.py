import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from zae_limiter.runtime import extras
from zae_limiter.runtime.extras import install_command

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.mark.parametrize(("extra", "wanted"), PROJECT["optional-dependencies"].items())
def test_the_command_names_what_the_extra_requires(extra: str, wanted: list[str]) -> None:
    assert install_command(extra) == " ".join(["pip install", *(f'"{each}"' for each in wanted)])


def test_without_metadata_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "requires", requires)
    assert install_command("speed") == "install the requirements of the extra 'speed' of zae-limiter-core"
