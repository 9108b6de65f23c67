"""What the stored limits are by the changes of administrators, and which of them a process may hold an acquire to.

Patterns of resources are levels between the resource and the system. Their limits and the system's are known by one
read: whoever has any of them as of an instant has all.

Lives here: the levels and their overrides, with rules of its own. Never: a bucket (oracle), an item of a level.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from zae_limiter.flows.process.config_cache import config_keys
from zae_limiter.operations.values import Key, Operation, Put, Transact
from zae_limiter.schema import keys
from zae_limiter.values.audit import Cause
from zae_limiter.values.limits import Limit
from zae_limiter.values.patterns import matching

Limits = tuple[Limit, ...]
PATTERNS = ("gpt*", "gp*", "*")  # of the resource ``gpt``, the longest first


def ordered(limits: Iterable[Limit]) -> Limits:
    """The limits by name."""
    return tuple(sorted(limits, key=lambda limit: limit.name))


@dataclass(frozen=True)
class Version:
    """What one place has from an instant on: limits of its own with their mode, and an override with its end.

    ``number``: that of the change among those of all places.
    """

    from_ms: int = 0
    number: int = 0
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
        self._seen = 0

    def intend(self, cause: Cause, key: Key, **changes: Any) -> None:
        """An administrator sends a change: fields of a version."""
        self._intended[cause.serial] = key, changes

    def saw(self, operation: Operation[Any], now_ms: int) -> None:
        """An operation took effect; changes are known by their audit events."""
        for write in operation.writes if isinstance(operation, Transact) else ():
            serial = str(write.item.get("event_id")).split("-")[-2:-1] if isinstance(write, Put) else []
            if serial and serial[0] in self._intended:
                key, changes = self._intended.pop(serial[0])
                self._seen += 1
                version = replace(self._versions[key][-1], from_ms=now_ms, number=self._seen, **changes)
                self._versions[key].append(version)

    def may_hold(self, place: tuple[str, str], limits: Iterable[Limit], span: Span) -> bool:
        """Whether these may be the limits of an entity on a resource: each level may be known as of another instant."""
        wanted = ordered(limits)
        own, shared = self._keys(place)
        open_: set[Limits] = {()}
        for key in own:
            possible, below = {*_in_force(self._versions[key], span)}, set[Limits]()
            for above in open_:
                for limits_of, mode in possible:
                    together = _over(above, limits_of)
                    if _goes_on(limits_of, mode):
                        below.add(together)
                    elif together == wanted:
                        return True
            open_ = below
        return any(wanted == self._below(above, shared, at) for above in open_ for at in self._reads(shared, span))

    def _reads(self, shared: Sequence[Key], span: Span) -> list[Callable[[Key], Version]]:
        """What one read of the item that the patterns and the system have together may have found of each of them, by
        the number of changes of all that it has seen.
        """
        changes = sorted({each.number for key in shared for each in self._versions[key]})
        begins = {each.number: each.from_ms for key in shared for each in self._versions[key]}
        ends = [*(begins[number] for number in changes[1:]), span.newest_ms + 1]
        seen = [
            number
            for number, end_ms in zip(changes, ends, strict=True)
            if begins[number] <= span.newest_ms and end_ms >= span.oldest_ms
        ]
        return [partial(self._as_of, number) for number in seen]

    def _as_of(self, number: int, key: Key) -> Version:
        return next(each for each in reversed(self._versions[key]) if each.number <= number)

    def _below(self, above: Limits, keys: Iterable[Key], version_of: Callable[[Key], Version]) -> Limits | None:
        """The limits of levels without overrides, below those of others; ``None`` if none has any."""
        together, said = above, bool(above)
        for key in keys:
            version = version_of(key)
            together, said = _over(together, version.own), said or bool(version.own) or version.mode == "unlimited"
            if not _goes_on(version.own, version.mode):
                break
        return together if said else None

    def _keys(self, place: tuple[str, str]) -> tuple[list[Key], list[Key]]:
        """The levels of an entity on a resource, the strongest first: each with an item, and those that share one."""
        *own, system = config_keys("ns", *place)[:4]
        patterns = (key_of_pattern(each) for each in matching(PATTERNS, place[1]))
        return own, [*patterns, system]

    def ever(self, place: tuple[str, str], name: str) -> set[Limit]:
        """Every limit of a name that an entity on a resource may have had."""
        own, shared = self._keys(place)
        versions = [version for key in (*own, *shared) for version in self._versions[key]]
        return {limit for each in versions for limit in (*each.own, *each.override) if limit.name == name}

    def at(self, place: tuple[str, str], now_ms: int) -> Limits:
        """The limits of an entity on a resource, of which the last change is long ago."""
        now = Span(now_ms, now_ms, now_ms, now_ms)
        together: Limits = ()
        own, shared = self._keys(place)
        for key in (*own, *shared):
            limits, mode = next(_in_force(self._versions[key][-1:], now))
            together = _over(together, limits)
            if not _goes_on(limits, mode):
                break
        return together


def key_of_pattern(pattern: str) -> Key:
    """The key that the config of a pattern would have as an item of its own."""
    return Key(keys.pk_resource("ns", pattern), keys.sk_config())


def _goes_on(limits: Limits, mode: str | None) -> bool:
    """Whether the next level has a word after one with these limits."""
    return mode == "extends" or not (limits or mode == "unlimited")


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
