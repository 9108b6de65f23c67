"""What follows a refusal at one level: wait, then overflow, then refuse."""

from typing import Final

from attrs import field, frozen
from attrs.converters import optional

from .checks import enforce
from .naming import NameKind, in_nfc
from .shapes import Name, Seconds, about, record_of

MAX_WAIT_SECONDS: Final = 86_400
REFUSE: Final = "refuse"


def _in_seconds(value: float) -> float:
    """Return a whole number as a float; leave anything else to the checks."""
    return float(value) if type(value) is int and abs(value) <= MAX_WAIT_SECONDS else value


@frozen(kw_only=True)
class OnRefusedDecl:
    """What follows if the limits of a call are short; raises `ManifestError`. Without values it refuses at once.

    `str` is `wait=2,overflow=credits`, or `refuse`.
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

    def __attrs_post_init__(self) -> None:
        overflow = {} if self.overflow is None else {"overflow": self.overflow}
        enforce(ON_REFUSED_STEPS, {"wait": self.wait, **overflow}, "OnRefusedDecl")

    def texts(self) -> dict[str, str]:
        """Return the steps that are given, by name: `{"wait": "2", "overflow": "credits"}`."""
        wait = {"wait": f"{self.wait:.3f}".rstrip("0").rstrip(".")} if self.wait else {}
        return {**wait, **({"overflow": self.overflow} if self.overflow else {})}

    def __str__(self) -> str:
        return ",".join(f"{step}={text}" for step, text in self.texts().items()) or REFUSE


ON_REFUSED_STEPS: Final = record_of(OnRefusedDecl)
