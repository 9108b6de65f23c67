"""Measure the text that a part of an answer brings: every string in it, wherever it stands.

Providers add places for text with each release (thinking, transcripts, code, arguments of tools), so a list of them
leaves some out. What is not text is known instead, by its name and its own form: a single word under the name of an id,
a kind or data, and a ``data:`` URL in base64.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

_DEEPEST: Final = 32  # levels below a part
_AGAIN: Final = frozenset({"logprobs", "logprobs_result", "logprobsResult"})  # the same text once more, token by token
_NO_TEXTS: Final = frozenset(
    (
        *("id", "type", "role", "object", "status", "model", "event", "finish_reason", "finishReason", "stop_reason"),
        *("mime_type", "mimeType", "media_type", "format", "encoding", "phase"),
        *("data", "base64", "b64_json", "file_data", "signature", "thought_signature", "thoughtSignature"),
        *("encrypted_content", "partial_image_b64"),
    )
)
_WORD: Final = re.compile(r"[\w+/=.:|-]*", re.ASCII)
_DATA_URL: Final = re.compile(r"data:[^,]{0,100};base64,[\w+/=-]*", re.ASCII)


def bytes_heard(*parts: object) -> int:
    """Return the bytes of the texts of the parts of one answer. What stands in several fields counts once: LiteLLM and
    LangChain report thinking and calls of tools twice.
    """
    size, heard = 0, set[str]()
    for part in parts:
        for name, value in _fields(part):
            texts: list[str] = []
            _collect(texts, name, value, _DEEPEST)
            new = [text for text in texts if text not in heard]
            size += sum(len(text) if text.isascii() else len(text.encode(errors="replace")) for text in new)
            heard.update(texts)
    return size


def _collect(texts: list[str], name: str, value: object, deeper: int) -> None:
    if isinstance(value, str):
        if name in _NO_TEXTS or (isinstance(name, str) and name.endswith("_id")):
            is_text = not _WORD.fullmatch(value)
        else:
            is_text = not (value.startswith("data:") and _DATA_URL.fullmatch(value))
        if value and is_text:
            texts.append(value)
    elif isinstance(value, list | tuple):
        for each in value if deeper else ():
            _collect(texts, name, each, deeper - 1)
    elif value is not None and deeper and name not in _AGAIN:
        for inner, each in _fields(value):
            if each is not None:
                _collect(texts, inner, each, deeper - 1)


def _fields(value: Any) -> Iterable[tuple[str, Any]]:
    """Return the fields of a mapping, or of an object of a provider's library; a text is one without a name."""
    if isinstance(value, str | list | tuple):
        return (("", value),)
    if isinstance(value, Mapping):
        return value.items()
    own: dict[str, Any] = getattr(value, "__dict__", None) or {}
    more = getattr(value, "__pydantic_extra__", None)
    return ({**own, **more} if more else own).items()
