"""Make header fields and problem documents for HTTP servers from a lease or a refusal: pure functions.

The fields are those of https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/ (revision 10): ``t`` is
the time until additional quota is there, which is the next whole token. The documents are those of RFC 9457.

The reader of an answer does not own every limit that the call draws on. So ``show`` has four levels: ``"own"``,
the default, has the limits of the entity that asked, and of another one only its name and the wait, if it is what
refuses: no capacity, no balance, no amount, no id. ``"all"`` has every limit. ``"retry_after"`` names none, and
``"nothing"`` shows no time either.

``x-should-retry: false`` is what the clients of OpenAI and Anthropic obey: they ask again twice otherwise, and follow
``Retry-After`` up to a minute only.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args
from urllib.parse import quote

from .exceptions import ValidationError
from .rules.registry import window_seconds
from .runtime.named_tuple import NamedTuple
from .values.limit_status import LimitStatus, Reason
from .values.refusal import AccessDisabled, RateLimitExceeded, never_come

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"
PROBLEM_TYPES: Final = "https://github.com/zae-limiter/zae-limiter/blob/main/docs/guides/frameworks.md#refused-"
"""What the type of a problem begins with; the reason follows."""
TITLES: Final[Mapping[Reason, str]] = {
    "rate": "Too Many Requests",
    "quota": "Quota Used Up",
    "concurrency": "Too Many Requests At Once",
    "disabled": "Forbidden",
    "never": "Request Can Never Pass",
}
STATUS: Final = 429
PAYMENT_REQUIRED: Final = 402
DISABLED: Final = 403
PATIENCE: Final = 60  # seconds: the longest ``Retry-After`` that the clients of OpenAI and Anthropic follow
NO_RETRY: Final = {"x-should-retry": "false"}
PLAIN: Final = " !#$&'()*+,/:;<=>?@[]^_`{|}~"  # in what ``names`` returns; the rest is percent-encoded
MOST: Final = 999_999_999_999_999  # of an integer in structured fields (RFC 9651)

Show: TypeAlias = Literal["nothing", "retry_after", "own", "all"]
SHOWS: Final = get_args(Show)
Names: TypeAlias = Callable[[LimitStatus], str]


class HasStatuses(Protocol):
    """A lease of either variant, or a ``RateLimitExceeded``."""

    @property
    def entity_id(self) -> str:
        """The entity that asked: the limits of any other one are of an entity above it."""

    @property
    def statuses(self) -> Sequence[LimitStatus]:
        """The statuses of the limits."""


def headers(
    result: HasStatuses,
    *,
    show: Show = "own",
    names: Names | None = None,
    units: Mapping[str, str] | None = None,
    legacy: bool = False,
    openai: bool = False,
    now: float | None = None,
) -> dict[str, str]:
    """Return the header fields of an answer, by name: ``RateLimit-Policy``, ``RateLimit``, and ``Retry-After`` of a
    refusal.

    Each limit is a policy by its name. With ``show="all"`` a parent's is ``parent/NAME``, that of the next bucket above
    ``parent-2/NAME``, those of draws are ``draw/NAME``, ``draw-2/NAME``, ``draw-2/parent/NAME``. ``names`` returns
    another name for the status of a limit, such as ``organisation/NAME``. ``units`` has the quota unit of limits that
    count something else than requests, like ``{"tpm": "tokens"}``; that of money is ``micro-usd`` and so on. ``legacy``
    adds ``X-RateLimit-*`` of the scarcest limit, as slowapi and Flask-Limiter send them: ``X-RateLimit-Reset`` is an
    instant in seconds of the epoch, ``now`` (by default the system's time) and the ``t`` of the limit. ``openai`` adds
    those of OpenAI's API, ``x-ratelimit-remaining-tokens`` and so on: of the scarcest limit whose unit is ``tokens``,
    and of the scarcest one that counts requests, with ``reset`` being the ``t`` of the limit. A refusal that
    can never pass has no ``Retry-After``; it and one with a wait above ``PATIENCE`` have ``x-should-retry: false``, and
    so has ``AccessDisabled``, which has no other field. A lease without statuses (an outage) has no fields, and no
    shadow limit has any. Raises ``ValueError`` for a unit that no field can have, ``ValidationError`` for another
    ``show``.
    """
    check_show(show)
    if show == "nothing":
        return {}
    if isinstance(result, AccessDisabled):
        return {**NO_RETRY}
    limits = _limits(result, show, names)
    shown = _short(limits) or limits
    fields: dict[str, str] = {}
    if policies := {each.name: _policy(each, units or {}) for each in limits if each.whole}:
        fields["RateLimit-Policy"] = ", ".join(policies.values())
    if shown:
        fields["RateLimit"] = ", ".join(_quota(each) for each in shown)
    if isinstance(result, RateLimitExceeded):
        if (wait := result.retry_after_header) is not None:
            fields["Retry-After"] = wait
        if result.retry_after_seconds > PATIENCE:
            fields |= NO_RETRY
    if openai:
        fields |= _openai([each for each in limits if each.whole], units or {})
    return fields | (_legacy(shown, time.time() if now is None else now) if legacy and shown else {})


def problem(
    refusal: RateLimitExceeded,
    *,
    show: Show = "own",
    names: Names | None = None,
    instance: str | None = None,
    payment_required: bool = False,
) -> dict[str, Any]:
    """Return the problem document of a refusal: JSON of the media type ``application/problem+json``, for status 429.

    Its type and ``reason`` are those of ``refusal.reason``. It names limits, amounts of the limits that ``show`` shows,
    and no entity. ``retry-after`` is in seconds, ``None`` if a retry can never pass. For ``AccessDisabled`` it has
    status 403, and nothing of what was given with the switch; where ``show`` names no limit, it is a plain document of
    status 429. ``payment_required``: where money is used up (``refusal.spends_money``), the status is 402.
    """
    check_show(show)
    if isinstance(refusal, AccessDisabled):
        return _typed(plain_problem(DISABLED, TITLES["disabled"], "Access is disabled.", instance), "disabled")
    if show in ("nothing", "retry_after"):
        return plain_problem(STATUS, "Too Many Requests", "Too many requests.", instance)
    violated = _short(_limits(refusal, show, names))
    wait = refusal.retry_after_header
    detail = "; ".join(_sentence(each) for each in violated)
    violations = [each.name for each in violated]
    status = PAYMENT_REQUIRED if payment_required and refusal.spends_money else STATUS
    return {
        **_typed(plain_problem(status, TITLES[refusal.reason], detail, instance), refusal.reason),
        "violated-policies": violations,
        "retry-after": None if wait is None else int(wait),
    }


def plain_problem(status: int, title: str, detail: str, instance: str | None = None) -> dict[str, Any]:
    """Return a problem document that says nothing beyond its status."""
    document = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return document if instance is None else {**document, "instance": instance}


def _typed(document: dict[str, Any], reason: Reason) -> dict[str, Any]:
    return {**document, "type": f"{PROBLEM_TYPES}{reason}", "reason": reason}


def check_show(show: object) -> None:
    """Raise ``ValidationError`` unless ``show`` is a level: a misspelled one would show more than it should."""
    if show not in SHOWS:
        raise ValidationError("show", show, f"must be one of {', '.join(SHOWS)}")


class _Limit(NamedTuple):
    """A limit under its public name. ``whole``: the reader may see its numbers, not only that it refuses."""

    name: str
    status: LimitStatus
    whole: bool

    @property
    def available(self) -> int:
        return max(0, self.status.available) if self.whole else 0

    @property
    def reset_seconds(self) -> float:
        """Seconds until it is enough after a refusal, otherwise until there is more."""
        return self.status.retry_after_seconds if self.status.exceeded else self.status.next_token_seconds


def _limits(result: HasStatuses, show: Show, names: Names | None) -> list[_Limit]:
    """Return the limits that an answer may name."""
    if show == "retry_after":
        return []
    refuser = result.primary_violation if isinstance(result, RateLimitExceeded) and result.violations else None
    found = []
    for status in result.statuses:
        whole = show == "all" or (not status.draw and status.entity_id == result.entity_id)
        if not status.limit.shadow and (whole or status is refuser):
            name = status.name_for(result.entity_id) if show == "all" else status.limit_name
            found.append(_Limit(name if names is None else quote(names(status), safe=PLAIN), status, whole))
    return found


def _short(limits: Sequence[_Limit]) -> list[_Limit]:
    """Return those that refuse; of two that have the same public name, the one with the longer wait."""
    found: dict[str, _Limit] = {}
    for each in limits:
        if each.status.exceeded and (each.name not in found or found[each.name].reset_seconds < each.reset_seconds):
            found[each.name] = each
    return [*found.values()]


def _policy(shown: _Limit, units: Mapping[str, str]) -> str:
    """Return the quota, and the seconds in which it refills, if it does."""
    limit = shown.status.limit
    unit = ""
    if limit.name in units or limit.unit:
        unit = f";qu={_string(units.get(limit.name, f'micro-{limit.unit}'))}"
    seconds = window_seconds(limit)
    window = "" if seconds is None else f";w={_integer(seconds)}"
    return f"{_string(shown.name)};q={_integer(limit.capacity)}{unit}{window}"


def _quota(shown: _Limit) -> str:
    """Return what is left, and the seconds to wait."""
    seconds = shown.reset_seconds
    reset = "" if math.isinf(seconds) else f";t={_integer(math.ceil(seconds))}"
    return f"{_string(shown.name)};r={_integer(shown.available)}{reset}"


def _legacy(shown: Sequence[_Limit], now: float) -> dict[str, str]:
    scarcest = _scarcest(shown)
    fields = {"X-RateLimit-Limit": str(scarcest.status.limit.capacity)} if scarcest.whole else {}
    fields["X-RateLimit-Remaining"] = str(scarcest.available)
    seconds = scarcest.reset_seconds
    return fields if math.isinf(seconds) else {**fields, "X-RateLimit-Reset": str(math.ceil(now + seconds))}


def _openai(limits: Sequence[_Limit], units: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of OpenAI's API; slots and money have none there."""
    fields: dict[str, str] = {}
    for what in ("requests", "tokens"):
        counting = [each for each in limits if not each.status.limit.unit and not each.status.limit._has_slots]
        counting = [each for each in counting if units.get(each.status.limit.name, "requests") == what]
        if counting:
            scarcest = _scarcest(counting)
            fields[f"x-ratelimit-limit-{what}"] = str(scarcest.status.limit.capacity)
            fields[f"x-ratelimit-remaining-{what}"] = str(scarcest.available)
            if not math.isinf(scarcest.reset_seconds):
                fields[f"x-ratelimit-reset-{what}"] = _duration(math.ceil(scarcest.reset_seconds))
    return fields


def _scarcest(limits: Sequence[_Limit]) -> _Limit:
    return min(limits, key=lambda each: each.available / max(1, each.status.limit.capacity))


def _duration(seconds: int) -> str:
    """Return seconds as OpenAI writes them: ``6m0s``."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest}s" if hours else f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _sentence(shown: _Limit) -> str:
    """Describe a shortage; of another entity's limit not even the amount, which may reveal a price."""
    status, for_ever = shown.status, math.isinf(shown.status.retry_after_seconds)
    asked = (
        f"{shown.name}: {status.limit.show(status.requested)} requested"
        if shown.whole
        else f"{shown.name}: not enough left"
    )
    if for_ever and not shown.whole:
        return asked
    if for_ever:
        if status.limit.blocks:
            return f"{asked}, which is blocked"
        if status.requested <= status.limit.usable_burst:
            return f"{asked}, {status.limit.show(shown.available)} available, and {never_come(status.limit)}"
        return f"{asked}, which can never pass: at most {status.limit.show(status.limit.usable_burst)}"
    left = f", {status.limit.show(shown.available)} available" if shown.whole else ""
    return f"{asked}{left}; retry in {math.ceil(status.retry_after_seconds)} s"


def _integer(number: int) -> int:
    """Return an integer of structured fields; replace one that is too large by the largest."""
    return min(number, MOST)


def is_string(text: object) -> bool:
    """Return whether structured fields (RFC 9651) can have the text as a string."""
    return isinstance(text, str) and text.isascii() and text.isprintable()


def _string(text: str) -> str:
    """Return a string of structured fields. Raises ``ValueError`` if the text cannot be one."""
    if not is_string(text):
        raise ValueError(f"no string of a header field: {text!r}")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
