"""What a team's files may give at most, as the platform sets it, and where they give more.

A level is judged by itself, not by those that hold with it: whichever of them are applied, and in whichever order, no
caller gets more than a bound on a resource. So a level that has limits names each bounded one, unless it extends the
next level, or is the last one, below which nothing makes a name unlimited.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Self

from attrs import evolve, field, frozen
from attrs.converters import optional

from .checks import Finding, enforce, find_problems, keys_only, spelled_out
from .converter import CONVERTER
from .declarations import ResourceDecl, SystemDecl
from .excess import find_excess, text_of
from .limit_declarations import LIMIT, MAX_LIMITS, LimitDecl
from .manifest import LimitsManifest, read_all
from .merging import Document
from .money import CURRENCIES
from .naming import PATTERN_END, NameKind, in_nfc
from .problems import Path, Problem, Problems, format_path, show
from .schedule_text import read_entry
from .shapes import NamedMap, Names, about, record_of
from .sortedmap import SortedMap, freeze, values_are
from .source import Reading, Report, read_source
from .winners import all_levels

MOST_NAMES: Final = 100
_UNNAMED: Final = "<bounds>"
_NEVER: Final = ("schedule", "shadow", "prefetch", "alert")


def _names(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(in_nfc, values))


@frozen
class Bounds:
    """The most that a namespace's files may say; raises `ManifestError`. None: any parent, any tier."""

    limits: Mapping[str, LimitDecl] = field(
        default=SortedMap({}),
        converter=freeze,
        validator=values_are(LimitDecl),
        metadata=about(
            NamedMap(NameKind.LIMIT, LIMIT, most=MAX_LIMITS, advice="leave some out"),
            "the most of each limit of any level, by name",
        ),
    )
    parents: tuple[str, ...] | None = field(
        default=None,
        converter=optional(_names),
        metadata=about(
            Names(NameKind.ENTITY, most=MOST_NAMES, least=0), "the entities that may be parents, by id or by `org-*`"
        ),
    )
    tiers: tuple[str, ...] | None = field(
        default=None,
        converter=optional(_names),
        metadata=about(Names(NameKind.TIER, most=MOST_NAMES, least=0), "the tiers that may be declared and used"),
    )

    def __attrs_post_init__(self) -> None:
        plain = {"limits": keys_only(self.limits), **self._names()}
        enforce(BOUNDS, plain, _UNNAMED, _never_in_bounds(self.limits, plain))

    @classmethod
    def from_yaml(cls, text: str | bytes, name: str = _UNNAMED) -> Self:
        """Return the bounds in a YAML text; raises `ManifestError` with every mistake, placed in the file `name`."""
        reading = Reading()
        source = read_source(text, name, reading)
        for find in (partial(find_problems, BOUNDS), _find_conflicts):
            for finding in find(source.value):
                source.note(finding)
            reading.problems.refuse()
        return cls._of(source.value)

    @classmethod
    def from_dict(cls, raw: Any, name: str = _UNNAMED) -> Self:
        """Return the bounds in plain values, as JSON gives them; raises `ManifestError` with every mistake."""
        enforce(BOUNDS, raw, name)
        return cls._of(raw)

    @classmethod
    def _of(cls, raw: Any) -> Self:
        return cls(**{**raw, "limits": _limits_of(raw)})

    def _names(self) -> dict[str, list[str]]:
        return {key: list(given) for key in ("parents", "tiers") if (given := getattr(self, key)) is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back as equal bounds."""
        limits = {name: limit.text or limit.given() for name, limit in self.limits.items()}
        return {**({"limits": limits} if limits else {}), **self._names()}

    def to_yaml(self) -> str:
        """Return a YAML text that `from_yaml` reads back as equal bounds."""
        plain = self.to_dict()
        limits = [f"  {name}: {json.dumps(limit)}\n" for name, limit in plain.pop("limits", {}).items()]
        names = [f"{key}: {json.dumps(given)}\n" for key, given in plain.items()]
        return "".join([*(["limits:\n"] if limits else []), *limits, *names])


BOUNDS: Final = record_of(Bounds)


def _limits_of(raw: Any) -> dict[str, LimitDecl]:
    given = raw.get("limits", {}).items()
    return {name: CONVERTER.structure(spelled_out(LIMIT, limit, name), LimitDecl) for name, limit in given}


def _find_conflicts(raw: Any) -> Iterator[Finding]:
    """Yield the problems between plain values that are valid each by itself."""
    return _never_in_bounds(_limits_of(raw), raw)


def _never_in_bounds(limits: Mapping[str, LimitDecl], plain: Mapping[str, object]) -> Iterator[Finding]:
    """Yield what no bounds may have."""
    if not limits and plain.keys() <= {"limits"}:
        yield Finding((), "must name limits, parents or tiers")
    for name, limit in limits.items():
        for key in _NEVER:
            if getattr(limit, key):
                yield Finding(("limits", name), f"has `{key}`, and a bound is the most at all times: leave it out")
        if name in CURRENCIES and not limit.unit:
            yield Finding(("limits", name), f"is not money, as limits named {name} are: write 500 {name}/month")


def find_beyond(manifest: LimitsManifest, bounds: Bounds) -> Iterator[Finding]:
    """Yield each place of a manifest that is beyond the bounds, in the manifest's order."""
    for at, resource, level in all_levels(manifest) if bounds.limits else ():
        yield from _in_level(at, resource, level, bounds.limits)
    yield from _foreign_tiers(manifest, bounds)
    yield from _foreign_parents(manifest, bounds)


def refuse_beyond(sources: Iterable[tuple[str, str | bytes]], bounds: Bounds, report: Report | None = None) -> None:
    """Raise `ManifestError` with each place of the files, as name and text, that is beyond the bounds."""
    problems = Problems()
    for document in read_all(sources, report):
        for finding in find_beyond(CONVERTER.structure(document.value, LimitsManifest), bounds):
            problems.note(partial(_located, document, finding))
    problems.refuse()


def _located(document: Document, finding: Finding) -> Problem:
    return document.locate(finding) or Problem("", None, None, format_path(finding.path), str(finding.message))


def _in_level(
    at: Path, resource: str | None, level: SystemDecl | ResourceDecl, bounds: Mapping[str, LimitDecl]
) -> Iterator[Finding]:
    if level.bypass:
        yield Finding((*at, "bypass"), f"admits every call, beyond the bounds of {_listed(bounds)}: leave it out")
    if level.unlimited:
        yield Finding((*at, "limits"), f"is unlimited, beyond the bounds of {_listed(bounds)}: give limits within them")
    for name, bound in bounds.items():
        if (limit := level.limits.get(name)) is not None:
            if problem := _beyond(limit, bound):
                yield Finding((*at, "limits", name), problem)
        elif level.limits and resource is not None and not getattr(level, "extends", False):
            way_out = f"name it, at most {text_of(bound)}, or add `extends: true`"
            yield Finding((*at, "limits"), f"leaves out {name}, which has a bound, and so is unlimited here: {way_out}")


def _listed(bounds: Mapping[str, LimitDecl]) -> str:
    return ", ".join(bounds)


def _beyond(limit: LimitDecl, bound: LimitDecl) -> str | None:
    if limit.shadow:
        return f"is in shadow, which refuses no call, and has a bound, {text_of(bound)}: leave `shadow` out"
    if problem := find_excess(limit, bound):
        return problem
    for text in limit.schedule:
        if problem := find_excess(_as_scheduled(limit, text), bound):
            return f"{problem}; by its entry {show(text)}"
    return None


def _as_scheduled(limit: LimitDecl, text: str) -> LimitDecl:
    """Return a limit as it is while an entry of its schedule holds."""
    entry = read_entry(text)
    period = entry["refill_period"] or limit.refill_period
    values = {name: entry[name] for name in ("capacity", "burst", "refill_amount")}
    return evolve(limit, schedule=(), prefetch=0, alert=(), refill_period=period, **values)


def _foreign_tiers(manifest: LimitsManifest, bounds: Bounds) -> Iterator[Finding]:
    allowed = bounds.tiers
    if allowed is None:
        return
    way_out = f"may not be used here: {_allowed(allowed)}"
    for tier in manifest.tiers:
        if tier not in allowed:
            yield Finding(("tiers", tier), f"tier {show(tier)} {way_out}", on_key=True)
    for entity, decl in manifest.entities.items():
        if decl.tier is not None and decl.tier not in allowed:
            yield Finding(("entities", entity, "tier"), f"tier {show(decl.tier)} {way_out}")


def _foreign_parents(manifest: LimitsManifest, bounds: Bounds) -> Iterator[Finding]:
    allowed = bounds.parents
    if allowed is None:
        return
    for entity, decl in manifest.entities.items():
        for place, parent in enumerate(decl.parents):
            if not any(_fits(parent, each) for each in allowed):
                path = ("parents", place) if decl.parents[1:] else ("parent",)
                problem = f"{show(parent)} may not be a parent here: {_allowed(allowed)}"
                yield Finding(("entities", entity, *path), problem)


def _fits(parent: str, pattern: str) -> bool:
    return parent.startswith(pattern[:-1]) if pattern.endswith(PATTERN_END) else parent == pattern


def _allowed(names: Iterable[str]) -> str:
    return f"the bounds allow {', '.join(map(show, names)) or 'none'}"
