"""Answers that come after their calls: ``background`` of the responses API.

Such a call is answered at once with an id, and without usage; whoever has the id may fetch the answer when it is there.
So the call stays open under its id, and is settled when it is fetched. This module imports nothing of LiteLLM.
"""

from collections.abc import Mapping
from typing import Any, Final

GONE: Final = "this process of the proxy no longer knows the call of this answer, so nobody would be charged for it"
_GOES_ON: Final = frozenset({"queued", "in_progress"})


def is_later(answer: object) -> bool:
    """Whether an answer says that its call was in the background."""
    return _get(answer, "background") is True


def goes_on(answer: object) -> bool:
    """Whether a provider still works at an answer."""
    return _get(answer, "status") in _GOES_ON


def id_of(answer: object) -> str:
    """Return the id of an answer; empty if it has none."""
    found = _get(answer, "id")
    return found if isinstance(found, str) else ""


def later_id(request: Mapping[str, Any], answer: object) -> str:
    """Return the id under which the answer to a request in the background can be fetched; empty for another one."""
    return id_of(answer) if request.get("background") or is_later(answer) else ""


def _get(answer: object, name: str) -> Any:
    return answer.get(name) if isinstance(answer, Mapping) else getattr(answer, name, None)
