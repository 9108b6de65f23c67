"""What the planner keeps of an apply: its entry in the history, and the manifest that it was for."""

from typing import TYPE_CHECKING

from ..errors import CommandError

if TYPE_CHECKING:
    from zae_limiter_manifest import Answer, ApplyEntry, LimitsManifest


def kept_of(namespace: str, answer: "Answer") -> "tuple[ApplyEntry, LimitsManifest]":
    """Return the apply of an answer to `show`. Raises ``CommandError`` if it has none, or one of another namespace."""
    if not answer.history or answer.manifest is None:
        raise CommandError(f"{namespace}: the answer contains no apply")
    if (other := answer.manifest.namespace) != namespace:  # a planner of an earlier release takes what is stored
        kept = f"the manifest of the apply {answer.history[0].serial} is of the namespace {other}"
        raise CommandError(f"{namespace}: {kept}: its items were changed; choose another serial")
    return answer.history[0], answer.manifest


def whole_of(namespace: str, answer: "Answer") -> "tuple[ApplyEntry, LimitsManifest]":
    """Return the apply as a rollback needs it. Raises ``CommandError`` if it was for its targets alone."""
    entry, manifest = kept_of(namespace, answer)
    if entry.targets:
        only = ", ".join(entry.targets)
        way_out = f"choose another serial, or apply a part of `limits status {entry.serial} --manifest` with --target"
        raise CommandError(f"{namespace}: the apply {entry.serial} was for its targets alone ({only}): {way_out}")
    return entry, manifest
