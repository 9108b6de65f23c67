"""Core and manifest know nothing of each other, so each has the grammar of limits; no edit may miss one of them."""

from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[2] / "packages"


@pytest.mark.parametrize("name", ["limit_text.py", "schedule_text.py"])
def test_core_and_manifest_have_one_grammar_of_limits(name: str) -> None:
    core = PACKAGES / "zae-limiter-core/src/zae_limiter/values" / name
    manifest = PACKAGES / "zae-limiter-manifest/src/zae_limiter_manifest" / name
    assert core.read_bytes() == manifest.read_bytes()
