"""What the stored limits are by the changes of administrators, and which of them a process may hold an acquire to.

Lives here: the four levels and their overrides, with rules of its own. Never: a bucket (oracle), an item of a level.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from zae_limiter.flows.process.config_cache import config_keys
from zae_limiter.operations.values import Key, Operation, Put, Transact
from zae_limiter.values.audit import Cause
from zae_limiter.values.limits import Limit

Limits = tuple[Limit, ...]


def ordered(limits: Iterable[Limit]) -> Limits:
    """The limits by name."""
    return tuple(sorted(limits, key=lambda limit: limit.name))


@dataclass(frozen=True)
class Version:
    """What one place has from an instant on: limits of its own with their mode, and an override with its end."""

    from_ms: int = 0
    own: Limits = ()
    mode: str | None = None
    override: Limits = ()
    until_ms: int = 0


class Span(NamedTuple):
    """An acquire: the time in which its limits may have been read, and the beginning and the end by its own clock."""

    oldest_ms: int
    newest_ms: int
    began_ms: int
    ended_ms: int


class Levels:
    """The versions of every place, one for each change that took effect."""

    def __init__(self) -> None:
        self._intended: dict[str, tuple[Key, dict[str, Any]]] = {}
        self._versions: defaultdict[Key, list[Version]] = defaultdict(lambda: [Version()])

    def intend(self, cause: Cause, key: Key, **changes: Any) -> None:
        """An administrator sends a change: fields of a version."""
        self._intended[cause.serial] = key, changes

    def saw(self, operation: Operation[Any], now_ms: int) -> None:
        """An operation took effect; changes are known by their audit events."""
        for write in operation.writes if isinstance(operation, Transact) else ():
            serial = str(write.item.get("event_id")).split("-")[-2:-1] if isinstance(write, Put) else []
            if serial and serial[0] in self._intended:
                key, changes = self._intended.pop(serial[0])
                self._versions[key].append(replace(self._versions[key][-1], from_ms=now_ms, **changes))

    def may_hold(self, place: tuple[str, str], limits: Iterable[Limit], span: Span) -> bool:
        """Whether these may be the limits of an entity on a resource: each level may be known as of another instant."""
        wanted = ordered(limits)
        open_: set[Limits] = {()}
        for key in config_keys("ns", *place)[:4]:
            possible, below = {*_in_force(self._versions[key], span)}, set[Limits]()
            for above in open_:
                for own, mode in possible:
                    together = _over(above, own)
                    if not own and mode is None:
                        below.add(above)
                    elif mode == "extends":
                        below.add(together)
                    elif together == wanted:
                        return True
            open_ = below
        return bool(wanted) and wanted in open_

    def ever(self, place: tuple[str, str], name: str) -> set[Limit]:
        """Every limit of a name that an entity on a resource may have had."""
        versions = [version for key in config_keys("ns", *place)[:4] for version in self._versions[key]]
        return {limit for each in versions for limit in (*each.own, *each.override) if limit.name == name}

    def at(self, place: tuple[str, str], now_ms: int) -> Limits:
        """The limits of an entity on a resource, of which the last change is long ago."""
        now = Span(now_ms, now_ms, now_ms, now_ms)
        together: Limits = ()
        for key in config_keys("ns", *place)[:4]:
            own, mode = next(_in_force(self._versions[key][-1:], now))
            together = _over(together, own)
            if mode == "unlimited" or (own and mode is None):
                break
        return together


def _over(above: Limits, below: Limits) -> Limits:
    """The limits of a level, and those of the next one by other names."""
    names = {limit.name for limit in above}
    return ordered((*above, *(limit for limit in below if limit.name not in names)))


def _in_force(versions: Sequence[Version], span: Span) -> Iterator[tuple[Limits, str | None]]:
    """What a level had at any instant of the span; an override holds before its end by the clock of the process."""
    for version, following in pairwise([*versions, Version(span.newest_ms + 1)]):
        if version.from_ms <= span.newest_ms and following.from_ms >= span.oldest_ms:
            if version.until_ms > span.began_ms:
                yield version.override, None
            if version.until_ms <= span.ended_ms:
                yield version.own, version.mode
