"""The history of applies, as the Lambda reports it; and a manifest as text of little size."""

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from attrs import asdict, field, fields, frozen
from attrs.validators import deep_iterable, instance_of, optional

from .formats import FormatError, reading
from .manifest import LimitsManifest

_TEXT: Final = instance_of(str)
_COUNT: Final = instance_of(int)
_LARGEST: Final = 200_000_000  # bytes of a manifest, once decompressed


def _as_tuple(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


@frozen
class ApplyEntry:
    """One apply: the serial of the state that it left, who, from where, when (ISO time), and what it did.

    `ended` is false while the apply is under way, and stays so if it was killed. `targets` are the patterns of the
    addresses that it was for, none for all.
    """

    serial: int = field(validator=_COUNT)
    at: str = field(validator=_TEXT)
    owner: str = field(validator=_TEXT)
    manifest_hash: str = field(validator=_TEXT)
    principal: str | None = field(default=None, kw_only=True, validator=optional(_TEXT))
    source: str | None = field(default=None, kw_only=True, validator=optional(_TEXT))
    created: int = field(default=0, kw_only=True, validator=_COUNT)
    updated: int = field(default=0, kw_only=True, validator=_COUNT)
    deleted: int = field(default=0, kw_only=True, validator=_COUNT)
    failed: int = field(default=0, kw_only=True, validator=_COUNT)
    left: int = field(default=0, kw_only=True, validator=_COUNT)
    targets: tuple[str, ...] = field(
        default=(), kw_only=True, converter=_as_tuple, validator=deep_iterable(_TEXT, instance_of(tuple))
    )
    ended: bool = field(default=True, kw_only=True, validator=instance_of(bool))

    @property
    def outcome(self) -> str:
        """How the apply ended: `applied`, `partial`, or `not ended`."""
        if not self.ended:
            return "not ended"
        return "partial" if self.failed or self.left else "applied"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back as an equal entry."""
        return {**asdict(self), "targets": list(self.targets)}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Return the entry in the plain values of `to_dict`; raises `FormatError`."""
        with reading("apply"):
            return cls(**{each.name: raw[each.name] for each in fields(cls)})


def compress(manifest: LimitsManifest) -> str:
    """Return a manifest as ASCII text, a twentieth of its size where entities are alike."""
    text = json.dumps(manifest.to_dict(), separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def decompress(content: str) -> LimitsManifest:
    """Return the manifest in a text of `compress`; raises `FormatError`, and `ManifestError` if it is not valid."""
    try:
        reader = zlib.decompressobj()
        text = reader.decompress(base64.b64decode(content, validate=True), _LARGEST)
        if not reader.eof:
            raise FormatError("not a manifest that was kept: it is cut short")
        plain = json.loads(text)
    except (ValueError, RecursionError, zlib.error) as error:
        raise FormatError(f"not a manifest that was kept: {error}") from error
    return LimitsManifest.from_dict(plain, "kept manifest")
