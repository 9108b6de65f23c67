"""What the planner keeps of an apply: its entry in the history, and the manifest that it was for."""

from typing import TYPE_CHECKING

from ..errors import CommandError

if TYPE_CHECKING:
    from zae_limiter_manifest import Answer, ApplyEntry, LimitsManifest


def kept_of(namespace: str, answer: "Answer") -> "tuple[ApplyEntry, LimitsManifest]":
    """Return the apply of an answer to `show`. Raises ``CommandError`` if it has none."""
    if not answer.history or answer.manifest is None:
        raise CommandError(f"{namespace}: the answer contains no apply")
    return answer.history[0], answer.manifest


def whole_of(namespace: str, answer: "Answer") -> "tuple[ApplyEntry, LimitsManifest]":
    """Return the apply as a rollback needs it. Raises ``CommandError`` if it was for its targets alone."""
    entry, manifest = kept_of(namespace, answer)
    if entry.targets:
        only = ", ".join(entry.targets)
        way_out = f"choose another serial, or apply a part of `limits show {entry.serial}` with --target"
        raise CommandError(f"{namespace}: the apply {entry.serial} was for its targets alone ({only}): {way_out}")
    return entry, manifest
