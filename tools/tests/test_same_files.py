"""Core and manifest know nothing of each other, so each has the grammar of limits; no edit may miss one of them."""

from pathlib import Path

PACKAGES = Path(__file__).parents[2] / "packages"


def test_core_and_manifest_have_one_grammar_of_limits() -> None:
    core = PACKAGES / "zae-limiter-core/src/zae_limiter/values/limit_text.py"
    manifest = PACKAGES / "zae-limiter-manifest/src/zae_limiter_manifest/limit_text.py"
    assert core.read_bytes() == manifest.read_bytes()
