"""Rules of shadow limits made wrong.

Lives here: the faults. Never: which of them are to be found (mutants).
"""

from collections.abc import Callable, Mapping
from typing import Any

from zae_limiter.flows.acquire.claims import Claim
from zae_limiter.flows.bucket.batch import Batch
from zae_limiter.flows.bucket_queue import BucketRequest
from zae_limiter.values.resolution import Config


def all_amounts(self: Claim) -> Mapping[str, int]:
    return self.amounts


def nothing(*_: Any) -> dict[str, int]:
    return {}


def given_by_debt(
    self: Batch, request: BucketRequest, headroom: Mapping[str, int], ceilings: Mapping[str, int]
) -> None:
    """A shadow limit gives whatever is asked for."""
    for name, amount in request.shadow_amounts.items():
        self.tried[name] = self.tried.get(name, 0) + amount
        self.unchecked[name] = self.unchecked.get(name, 0) + amount


def told_to_nobody(real: Callable[..., BucketRequest]) -> Callable[..., BucketRequest]:
    def give_back(self: BucketRequest, *, events: int) -> BucketRequest:
        """A compensation leaves what shadow limits would have refused in the count."""
        back = real(self, events=events)
        back.shadows = 0
        return back

    return give_back


def all_in_shadow(self: Config, name: str) -> Any:
    """One shadow limit makes shadow limits of all."""
    found = object.__getattribute__(self, name)
    return frozenset(self.by_name) if name == "shadow" and found else found
