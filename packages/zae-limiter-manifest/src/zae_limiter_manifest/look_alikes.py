"""Ids of a manifest that look like another of its ids: written by mistake, or to be mistaken.

Each has a bucket of its own, so limits that are meant for one may hold for the other. Two ids are alike if they are
equal in NFKC, without case, and with Cyrillic and Greek letters as the Latin ones that they look like. A single id is
never reported, so ids of one script, or of several, raise no alarm by themselves. Digits are no letters: `user-1` and
`user-l` are often both meant.
"""

from collections.abc import Iterator
from typing import Any, Final
from unicodedata import name, normalize

from attrs import frozen

from .manifest import LimitsManifest
from .problems import INVISIBLE, Path, format_path

_SHOWN = 3  # characters, in a message
# Also where only the capital letters are alike: case is folded before.
_CYRILLIC: Final = str.maketrans("авекмнорстухіјѕһԁԛԝѵӏү", "abekmhopctyxijshdqwvly")
_GREEK: Final = str.maketrans("αβεζηικμνορτυχϲϳ", "abezhikmvoptyxcj")
_LETTERS: Final = _CYRILLIC | _GREEK


@frozen
class LookAlike:
    """An id at `path` that looks like the one at `other`, and is another."""

    namespace: str
    path: str
    other: str
    difference: str

    def __str__(self) -> str:
        return f"{self.namespace}: {self.path} looks like {self.other}, but differs{self.difference}: two buckets"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, with the message."""
        return {"namespace": self.namespace, "path": self.path, "names": {self.other: []}, "message": str(self)}


def find_look_alikes(manifest: LimitsManifest) -> Iterator[LookAlike]:
    """Yield each id of an entity or a resource that looks like one before it."""
    places: dict[tuple[str, str], Path] = {("resources", each): ("resources", each) for each in manifest.resources}
    for plan, decl in manifest.plans.items():
        for each in decl.resources:
            places.setdefault(("resources", each), ("plans", plan, "resources", each))
    places |= {("entities", each): ("entities", each) for each in manifest.entities}
    for entity, own in manifest.entities.items():
        for each in own.resources:
            places.setdefault(("resources", each), ("entities", entity, "resources", each))
    first: dict[tuple[str, str], str] = {}
    for (kind, written), path in places.items():
        known = first.setdefault((kind, _looks(written)), written)
        if known != written:
            other = format_path(places[kind, known])
            yield LookAlike(manifest.namespace, format_path(path), other, _difference(written, known))


def _looks(written: str) -> str:
    if written.isascii():
        return written.lower()
    folded = normalize("NFKC", normalize("NFKC", written).casefold()).translate(_LETTERS)
    return INVISIBLE.sub("", folded)


def _difference(written: str, known: str) -> str:
    strange = [each for each in dict.fromkeys(written + known) if (each in written) != (each in known)]
    beyond = [f"U+{ord(each):04X} {name(each, '')}".strip() for each in strange if not each.isascii()]
    return f" by {', '.join(beyond[:_SHOWN])}" if beyond else " in case" if written.lower() == known.lower() else ""
