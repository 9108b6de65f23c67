"""What follows a refusal at one level: wait, then overflow, then refuse."""

from collections.abc import Iterator, Mapping
from typing import Final

from attrs import evolve, field, frozen
from attrs.converters import optional

from .checks import enforce
from .naming import NameKind, in_nfc
from .shapes import Name, Percent, Seconds, about, record_of

MAX_WAIT_SECONDS: Final = 86_400
REFUSE: Final = "refuse"


def _in_seconds(value: float) -> float:
    """Return a whole number as a float; leave anything else to the checks."""
    return float(value) if type(value) is int and abs(value) <= MAX_WAIT_SECONDS else value


@frozen(kw_only=True)
class OnRefusedDecl:
    """What follows if the limits of a call are short; raises `ManifestError`. Without values it refuses at once.

    `str` is `wait=2,at=80%,overflow=credits`, or `refuse`.
    """

    wait: float = field(
        default=0.0,
        converter=_in_seconds,
        metadata=about(Seconds(MAX_WAIT_SECONDS), "the seconds that a call waits for its tokens at most"),
    )
    overflow: str | None = field(
        default=None,
        converter=optional(in_nfc),
        metadata=about(Name(NameKind.RESOURCE), "the resource whose bucket then serves the call, if it has the tokens"),
    )

    at: str | None = field(
        default=None,
        metadata=about(
            Percent(), "how much of a limit is used when calls ask the overflow first, before one is refused: `80%`"
        ),
    )

    def __attrs_post_init__(self) -> None:
        overflow = {"overflow": self.overflow, "at": self.at}
        given = {step: value for step, value in overflow.items() if value is not None}
        enforce(ON_REFUSED_STEPS, {"wait": self.wait, **given}, "OnRefusedDecl")

    def texts(self) -> dict[str, str]:
        """Return the steps that are given, by name: `{"wait": "2", "at": "80%", "overflow": "credits"}`."""
        wait = {"wait": f"{self.wait:.3f}".rstrip("0").rstrip(".")} if self.wait else {}
        at = {"at": self.at} if self.at else {}
        return {**wait, **at, **({"overflow": self.overflow} if self.overflow else {})}

    def __str__(self) -> str:
        return ",".join(f"{step}={text}" for step, text in self.texts().items()) or REFUSE


def _find_conflicts(steps: Mapping[object, object]) -> Iterator[tuple[object, str]]:
    """Yield the part that names no overflow; in the spelling of CloudFormation, too."""
    for at, overflow in (("at", "overflow"), ("At", "Overflow")):
        if steps.get(at) is not None and steps.get(overflow) is None:
            yield at, "says when the overflow comes first: name an overflow, too"


ON_REFUSED_STEPS: Final = evolve(record_of(OnRefusedDecl), conflicts=_find_conflicts)
