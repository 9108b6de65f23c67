"""Write a declaration as the text that fingerprints and hashes are made of: the same from release to release."""

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from .converter import ALERT, EXTENDS, UNIT, UNLIMITED
from .declarations import Decl, RecordDecl, SystemDecl
from .equal_values import MOST_REMEMBERED
from .limit_declarations import LIMIT_FIELDS, LimitDecl
from .weights import WeightsDecl

_OF_CALENDAR: Final = ("window", "timezone", "starts_on")


@lru_cache(MOST_REMEMBERED)
def canonical(decl: Decl) -> str:
    """Return a text with a line for each declared value, defaults included: equal texts for equal declarations.

    Only shadow limits have that word, only limits with seconds of prefetch, weights, a schedule or an alert have these,
    and only levels with switches, `on_refused` or a mode have lines for them, so that all other texts
    equal those of earlier releases.
    """
    lines = []
    if isinstance(decl, RecordDecl):
        return f"record {json.dumps(decl.to_plain(), sort_keys=True)}"
    if isinstance(decl, SystemDecl) and decl.on_unavailable:
        lines.append(f"on_unavailable {decl.on_unavailable}")
    if decl.switches:  # as no limit begins, whose name is followed by numbers
        lines.append(f"switches {json.dumps(decl.switches, sort_keys=True)}")
    lines += [word for word in (UNLIMITED, EXTENDS) if getattr(decl, word, False)]
    if decl.on_refused is not None:
        lines.append(f"on_refused {decl.on_refused}")
    lines += [" ".join((name, *_words(limit))) for name, limit in decl.limits.items()]
    return "\n".join(lines)


def _words(limit: LimitDecl) -> Iterator[str]:
    """Yield each whole number of a limit, the name of each flag that it has, its milliseconds of prefetch, its weights,
    and what another kind of limit has.
    """
    if limit.kind != "token_bucket":
        yield json.dumps([limit.kind, *(getattr(limit, name) for name in _OF_CALENDAR)])
    for name in LIMIT_FIELDS:
        value = getattr(limit, name)
        if name in _OF_CALENDAR or name == "kind" or (name == "expires" and not value):
            continue
        if type(value) is int:
            yield str(value)
        elif value is True:
            yield name
        elif isinstance(value, WeightsDecl):
            yield f"{name} {value}"
        elif name == UNIT:
            yield from [f"{name} {value}"] if value else ()
        elif isinstance(value, tuple):
            yield from [f"{name} {','.join(map(str, value))}"] if name == ALERT and value else map(json.dumps, value)
        elif value:
            yield f"{name} {round(value * 1000)}"
