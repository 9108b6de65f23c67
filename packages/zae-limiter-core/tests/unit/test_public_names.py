import subprocess
import sys
from importlib.metadata import version

import pytest

import zae_limiter


@pytest.mark.parametrize("name", zae_limiter.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert hasattr(zae_limiter, name)
    assert name in dir(zae_limiter)


def test_the_builders_are_public() -> None:
    assert type(zae_limiter.Repository.builder()) is zae_limiter.RepositoryBuilder
    assert type(zae_limiter.SyncRepository.builder()) is zae_limiter.SyncRepositoryBuilder


def test_the_version_is_that_of_the_installed_distribution() -> None:
    assert zae_limiter.__version__ == version("zae-limiter-core")
    assert "__version__" in dir(zae_limiter)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'zae_limiter' has no attribute 'Limits'"):
        zae_limiter.Limits  # type: ignore[attr-defined]  # noqa: B018


def test_neither_the_version_nor_a_name_is_looked_up_at_import() -> None:
    ask = "import sys, zae_limiter; print([n for n in sys.modules if n.startswith(('zae_limiter.', 'importlib.meta'))])"
    answer = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"
