"""Ids of a manifest that look like another of its ids: written by mistake, or to be mistaken.

Each has a bucket of its own, so limits that are meant for one may hold for the other. Two ids are alike if they are
equal in NFKC, without case, and with the letters and signs of the tables below as those of ASCII that they look like. A
single id is never reported, so ids of one script, or of several, raise no alarm by themselves. In ASCII nothing but
case is compared: `user-1` and `user-l`, `modern` and `modem` are often both meant.
"""

from collections.abc import Iterator
from typing import Final
from unicodedata import name, normalize

from .manifest import LimitsManifest
from .problems import INVISIBLE, Path, format_path
from .warned import LOOK_ALIKE, Warned
from .winners import all_levels

_SHOWN = 3  # characters, in a message
# Also where only the capital letters are alike: case is folded before.
_CYRILLIC: Final = str.maketrans("авекмнорстухіјѕһԁԛԝѵӏүԍзь", "abekmhopctyxijshdqwvlyg3b")
_GREEK: Final = str.maketrans("αβεζηικμνορτυχϳ", "abezhikmvoptyxj")
_OTHERS: Final = str.maketrans("\u0131\u0251\u0261\u0585\u0570\u0578", "iagohn")
_SIGNS: Final = str.maketrans("\u2010\u2012\u2013\u2212\u2044\u2215\u2236\u02d0\ua789", "----//:::")
_LUNATE: Final = str.maketrans("\u03f2\u03f9", "cc")  # before NFKC, in which it is a sigma
_LETTERS: Final = _CYRILLIC | _GREEK | _OTHERS | _SIGNS


def find_look_alikes(manifest: LimitsManifest) -> Iterator[Warned]:
    """Yield each id of an entity, a resource or a tier that looks like one before it."""
    places: dict[tuple[str, str], Path] = {("resources", each): ("resources", each) for each in manifest.resources}
    places |= {("tiers", each): ("tiers", each) for each in manifest.tiers}
    places |= {("entities", each): ("entities", each) for each in manifest.entities}
    levels = [*all_levels(manifest)]
    for path, resource, _ in levels:
        if resource is not None:
            places.setdefault(("resources", resource), path)
    for path, _, level in levels:
        if level.on_refused is not None and level.on_refused.overflow is not None:
            places.setdefault(("resources", level.on_refused.overflow), (*path, "on_refused", "overflow"))
    first: dict[tuple[str, str], str] = {}
    for (kind, written), path in places.items():
        known = first.setdefault((kind, _looks(written)), written)
        if known != written:
            other = format_path(places[kind, known])
            two = "tiers" if kind == "tiers" else "buckets"
            text = f"looks like {other}, but differs{_difference(written, known)}: two {two}"
            yield Warned(LOOK_ALIKE, manifest.namespace, path, text, {other: ()})


def _looks(written: str) -> str:
    if written.isascii():
        return written.lower()
    folded = normalize("NFKC", normalize("NFKC", written.translate(_LUNATE)).casefold()).translate(_LETTERS)
    return INVISIBLE.sub("", folded)


def _difference(written: str, known: str) -> str:
    strange = [each for each in dict.fromkeys(written + known) if (each in written) != (each in known)]
    beyond = [f"U+{ord(each):04X} {name(each, '')}".strip() for each in strange if not each.isascii()]
    return f" by {', '.join(beyond[:_SHOWN])}" if beyond else " in case" if written.lower() == known.lower() else ""
