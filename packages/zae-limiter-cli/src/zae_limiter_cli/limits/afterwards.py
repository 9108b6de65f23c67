"""What callers have after plans of several namespaces."""

from collections.abc import Mapping, Sequence

from zae_limiter_manifest import Address, LimitsManifest, Plan
from zae_limiter_manifest.consequences import consequences_of

Notes = Mapping[str, Mapping[Address, Sequence[str]]]


def notes_on(manifests: Sequence[LimitsManifest], plans: Sequence[Plan]) -> Notes:
    """Return lines on what callers have after each change of plans of these manifests, by namespace and address."""
    of = {manifest.namespace: manifest for manifest in manifests}
    return {each.namespace: consequences_of(of[each.namespace], each).lines for each in plans if each.namespace in of}


def levels_together(manifests: Sequence[LimitsManifest], plans: Sequence[Plan]) -> Notes:
    """Return those lines that say which limits levels have together."""
    of = {manifest.namespace: manifest for manifest in manifests}
    return {
        each.namespace: consequences_of(of[each.namespace], each).together for each in plans if each.namespace in of
    }
