"""The weights of a limit: how many of its tokens a token of each kind counts for."""

from collections.abc import Mapping
from typing import Any, Final

from attrs import field, fields, frozen

from .checks import enforce
from .shapes import Number, about, record_of

MAX_WEIGHT: Final = 1_000_000


def _weight(text: str) -> Any:
    return field(default=None, metadata=about(Number(MAX_WEIGHT, 6), text))


@frozen(kw_only=True)
class WeightsDecl:
    """How many tokens of a limit a token of each kind counts for; raises `ManifestError`.

    `str` is `input=1,cached=0.1,output=4`.
    """

    input: float | None = _weight("of input that came from no cache of prompts and went into none")
    cached: float | None = _weight("of input read from a cache of prompts; by default as `input`")
    cache_write: float | None = _weight("of input written to a cache of prompts; by default as `input`")
    output: float | None = _weight("of output")
    reasoning: float | None = _weight("of output that the model has thought; by default as `output`")

    def __attrs_post_init__(self) -> None:
        enforce(WEIGHTS_OF_KINDS, self.by_kind(), "WeightsDecl")

    def by_kind(self) -> dict[str, float]:
        """Return the weights that are given, by kind."""
        return {each.name: value for each in fields(WeightsDecl) if (value := getattr(self, each.name)) is not None}

    def texts(self) -> dict[str, str]:
        """Return the weights that are given as decimals, by kind: `0.1`."""
        return {kind: f"{abs(value):.6f}".rstrip("0").rstrip(".") for kind, value in self.by_kind().items()}

    def __str__(self) -> str:
        return ",".join(f"{kind}={text}" for kind, text in self.texts().items())


WEIGHTS_OF_KINDS: Final = record_of(WeightsDecl)
_NO_WEIGHTS: Final = WeightsDecl()


def as_weights(given: Any) -> Any:
    """Return weights by kind as their model, and none as None; leave anything else to the checks."""
    if isinstance(given, Mapping):
        enforce(WEIGHTS_OF_KINDS, given, "WeightsDecl")
        given = WeightsDecl(**given)
    return None if given == _NO_WEIGHTS else given
