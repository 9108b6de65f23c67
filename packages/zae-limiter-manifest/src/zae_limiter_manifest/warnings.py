"""What is not a mistake in a manifest, and may not be meant."""

from collections.abc import Iterator
from typing import TypeAlias

from .left_out import LeftOut, find_left_out
from .look_alikes import LookAlike, find_look_alikes
from .manifest import LimitsManifest

Warned: TypeAlias = LeftOut | LookAlike


def find_warnings(manifest: LimitsManifest) -> Iterator[Warned]:
    """Yield the levels that leave limits out, then the ids that look like others."""
    yield from find_left_out(manifest)
    yield from find_look_alikes(manifest)
