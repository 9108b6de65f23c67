"""Warnings of a manifest that is applied: what `limits plan` says of a file, for stacks that are deployed without."""

from collections.abc import Sequence
from typing import Final

from zae_limiter_manifest import LimitsManifest
from zae_limiter_manifest.render.words import counted
from zae_limiter_manifest.warned import PARENT_WITHOUT_CASCADE
from zae_limiter_manifest.warnings import find_warnings

LISTED: Final = 5
LOGGED: Final = 20
_OF_FILES: Final = (PARENT_WITHOUT_CASCADE,)  # a file may say `cascade: false`, which declarations leave out


def warnings_of(manifest: LimitsManifest | None) -> list[str]:
    """Return the warnings that the manifest does not ignore, each with its name."""
    found = () if manifest is None else find_warnings(manifest)
    return [f"{each.path} {each.text} [{each.name}]" for each in found if each.name not in _OF_FILES]


def first(warnings: Sequence[str], most: int) -> list[str]:
    """Return the first warnings, and how many more there are."""
    more = len(warnings) - most
    return [*warnings[:most], *([counted(more, "more warning")] if more > 0 else [])]
