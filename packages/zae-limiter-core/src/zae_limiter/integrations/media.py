"""Find the images, sound and video in a request to a language model: data that are not text, whatever their size.

A client writes places, names and declared types as it likes, so none of them proves anything. Data are media where all
of this is true: they stand in a part of a message that providers read as media; nothing beside them declares another
kind, by which a provider may go; they are base64 to the last character; and they begin as files of such a kind do. All
else is text. Arguments of tools and schemas have no such part, because a model reads them as they are.
"""

from binascii import a2b_base64
from collections.abc import Iterator, Mapping
from mimetypes import types_map
from typing import Any, Final

_MESSAGES: Final = ("messages", "input", "contents")
_HOLD_PARTS: Final = ("content", "parts", "output")
_WITH_PARTS: Final = ("", "message", "tool_result", "function_call_output", "computer_call_output")
_NAMES: Final = frozenset(
    (
        *("image_url", "input_audio", "file", "file_data", "source", "base64", "data"),
        *("inlineData", "inline_data", "image", "video", "images"),
    )
)
_KINDS: Final = ("image/", "audio/", "video/")
_DECLARED: Final = ("media_type", "mime_type", "mimeType")
_DATA: Final = "data:"
_BASE64: Final = ";base64"
_LONGEST_START: Final = 64  # characters of base64
_STARTS: Final = (
    *(b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*"),
    *(b"\xff\xfb", b"\xff\xf3", b"\xff\xf2", b"\xff\xfa", b"ID3\2", b"ID3\3", b"ID3\4"),  # MP3
    *(b"\xff\xf1", b"\xff\xf9", b"OggS\0", b"fLaC\0", b"#!AMR", b"\x1aE\xdf\xa3", b"\0\0\1\xba"),  # AAC to WebM, MPEG
)
_IN_RIFF: Final = (b"WEBP", b"WAVE", b"AVI ", b"AIFF", b"AIFC")  # the last two in FORM


def media_bytes(request: Mapping[str, Any]) -> int:
    """Return how many bytes of a request are the data of images, sound and video in its messages."""
    size, left = 0, [request[name] for name in _MESSAGES if name in request]
    while left:
        part = left.pop()
        if isinstance(part, list | tuple):
            left += [each for each in part if isinstance(each, dict)]
        elif isinstance(part, dict):
            if not _NAMES.isdisjoint(part):  # seldom: what follows costs more than all else of a short message
                size += sum(_judged(data, declared) for data, declared in _places(part))
            if part.get("type", "") in _WITH_PARTS:
                left += [part[name] for name in _HOLD_PARTS if name in part]
    return size


def _places(part: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield what a part has where providers read media, with the type that is declared beside it."""
    match part.get("type", ""):
        case "image_url" | "input_image" | "computer_screenshot":  # OpenAI
            holder = part.get("image_url")
            yield (holder.get("url") if isinstance(holder, Mapping) else holder), None
        case "input_audio":
            yield _inside(part, "input_audio", "data"), None
        case "file":
            yield from _file(part.get("file"))
        case "input_file":
            yield from _file(part)
        case "image" | "audio" | "video":  # Anthropic; LangChain
            if _inside(part, "source", "type") in (None, "base64"):
                yield _inside(part, "source", "data"), _declared(part.get("source"))
            yield from ((part.get(name), _declared(part)) for name in ("base64", "data"))
        case "":
            for name in ("inlineData", "inline_data"):  # Gemini
                yield _inside(part, name, "data"), _declared(part.get(name))
            for name in ("image", "video"):  # Bedrock
                yield _inside(part.get(name), "source", "bytes"), None
            images = part.get("images")  # Ollama
            yield from ((image, None) for image in (images if isinstance(images, list | tuple) else ()))


def _inside(holder: Any, name: str, inner: str) -> Any:
    part = holder.get(name) if isinstance(holder, Mapping) else None
    return part.get(inner) if isinstance(part, Mapping) else None


def _file(part: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the data of a file that declares its type. A provider may also go by the name, so that counts, too."""
    data = part.get("file_data") if isinstance(part, Mapping) else None
    if isinstance(data, str) and data.startswith(_DATA):
        name = part.get("filename")
        extension = "".join(str(name).lower().rpartition(".")[1:])
        yield data, None if name is None else types_map.get(extension, "")


def _declared(holder: Any) -> Any:
    names = [holder[name] for name in _DECLARED if name in holder] if isinstance(holder, Mapping) else []
    return names[0] if names else None


def _judged(data: object, declared: object) -> int:
    """Return the size of data that are an image, sound or video, and 0 of any other."""
    if declared is not None and not (isinstance(declared, str) and declared.startswith(_KINDS)):
        return 0
    if isinstance(data, bytes):
        return len(data) if _begins_as_media(data) else 0
    if not isinstance(data, str):
        return 0
    if data.startswith(_DATA):
        head, _, data = data.partition(",")
        if not (head.removeprefix(_DATA).startswith(_KINDS) and head.endswith(_BASE64)):
            return 0
    try:
        if not _begins_as_media(_decoded(data[:_LONGEST_START])):
            return 0
        _decoded(data)
    except ValueError:
        return 0
    return len(data)


def _decoded(text: str) -> bytes:
    """Return the bytes of base64, in either alphabet. Raises ``ValueError`` for any other text."""
    return a2b_base64(text.replace("-", "+").replace("_", "/"), strict_mode=True)


def _begins_as_media(data: bytes) -> bool:
    if data[:4] in {b"RIFF", b"FORM"}:
        return data[8:12] in _IN_RIFF
    return data.startswith(_STARTS) or data[4:8] == b"ftyp"
