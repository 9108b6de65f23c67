"""Name a mistyped `--target`: a plan of nothing looks like one of what is applied already."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..columns import say_sentence

if TYPE_CHECKING:
    from zae_limiter_manifest import LimitsManifest, Plan


def warn_of_idle(targets: Sequence[str], manifests: "Sequence[LimitsManifest]", plans: "Sequence[Plan]") -> None:
    """Print, beside the result, each target that no declared item and no change fits."""
    if not targets:
        return
    known = [address for manifest in manifests for address, _ in manifest.declared()]
    known += [change.address for plan in plans for change in plan.changes]
    known += [address for plan in plans for address in plan.forgotten]
    for pattern in targets:
        if not any(address.fits(pattern) for address in known):
            way = "check it against the items of a plan, such as 'entity acme/gpt-4'"
            say_sentence(f"--target {pattern!r}: no declared item and no change fits it; {way}", err=True)
