"""What a replay found, as values: for whom, by which limit, how many calls were refused and would have been."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Self

from attrs import field, frozen

if TYPE_CHECKING:
    from zae_limiter import Limit

Source = Literal["hourly usage", "trace", "trace and hourly usage"]


@frozen
class Finding:
    """The calls on a bucket that one of its limits refuses.

    ``calls`` is their number, ``before`` how many were refused then, by any limit.
    From ``least`` to ``most`` would be refused; by a ``shadow`` limit, if it was enforced. ``rule`` is the limit as
    text, empty for a switch.
    """

    entity_id: str
    resource: str
    limit: str
    rule: str
    calls: int
    before: int
    least: int
    most: int
    shadow: bool = False
    source: Source = "hourly usage"

    @property
    def is_known(self) -> bool:
        """Whether the bounds say something: not from none to more than half of the calls."""
        return says_something(self.least, self.most, self.calls)

    @property
    def share(self) -> tuple[float, float]:
        """The least and the most that would be refused, as parts of the calls."""
        return (self.least / self.calls, self.most / self.calls) if self.calls else (0.0, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for programs."""
        return {
            "entity_id": self.entity_id,
            "resource": self.resource,
            "limit": {"name": self.limit, "text": self.rule, "shadow": self.shadow},
            "calls": self.calls,
            "refused_before": self.before,
            "refused_after": {"at_least": self.least, "at_most": self.most},
            "source": self.source,
        }


@frozen
class Replayed:
    """What a replay of one namespace found. ``calls`` were looked at, of which ``before`` were refused then.

    ``traced`` of the ``buckets`` are decided by a trace, the others by hourly usage. ``notes`` say what was not looked
    at, and how sure the numbers are. ``nothing`` says why there was nothing to replay; it is empty if there was.
    """

    namespace: str
    since: datetime
    until: datetime
    calls: int
    before: int
    least: int
    most: int
    buckets: int
    traced: int = 0
    findings: Sequence[Finding] = ()
    notes: Sequence[str] = field(factory=list)
    nothing: str = ""

    @classmethod
    def of_nothing(cls, namespace: str, since: datetime, until: datetime, why: str, *notes: str) -> Self:
        """Return the replay of a past without a call, and why it has none."""
        return cls(namespace, since, until, calls=0, before=0, least=0, most=0, buckets=0, notes=notes, nothing=why)

    @property
    def source(self) -> Source:
        """Where the numbers are from."""
        if not self.traced:
            return "hourly usage"
        return "trace" if self.traced == self.buckets else "trace and hourly usage"

    @property
    def refusing(self) -> list[Finding]:
        """The findings that may refuse a call, those that refuse most first."""
        return ordered(each for each in self.findings if each.most or each.before)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for programs."""
        from ...times import iso

        return {
            "namespace": self.namespace,
            "source": None if self.nothing else self.source,
            "since": iso(self.since),
            "until": iso(self.until),
            "nothing_replayed": self.nothing or None,
            "buckets": self.buckets,
            "buckets_by_trace": self.traced,
            "calls": self.calls,
            "refused_before": self.before,
            "refused_after": {"at_least": self.least, "at_most": self.most},
            "findings": [each.to_dict() for each in self.refusing],
            "notes": list(self.notes),
        }


def says_something(least: int, most: int, calls: int) -> bool:
    """Return whether bounds of so many calls say more than that anything may be: not from 0 to more than half."""
    return least > 0 or 2 * most <= calls


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, those that surely refuse most first."""
    return sorted(findings, key=lambda each: (-each.least, -each.most, each.entity_id, each.resource, each.limit))


def rule_text(limit: "Limit") -> str:
    """Return the text of a limit, without its weights and its schedule."""
    return replace(limit, weights={}, schedule=()).text
