"""Which data of a request are an image, sound or video, and which only say so."""

from base64 import b64encode, urlsafe_b64encode
from typing import Any

import pytest

from zae_limiter.integrations.media import media_bytes
from zae_limiter.integrations.tokens import estimate

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 300
STARTS = [
    *(PNG[:16], b"\xff\xd8\xff\xe0\0\x10JFIF", b"GIF89a\1\0\1\0", b"RIFF\0\0\0\0WEBPVP8 ", b"II*\0\x08\0\0\0"),
    *(b"RIFF\0\0\0\0WAVEfmt ", b"ID3\4\0\0", b"\xff\xfb\x90\x44", b"OggS\0\2", b"fLaC\0\0", b"FORM\0\0\0\0AIFFCOMM"),
    *(b"\0\0\0\x18ftypmp42", b"\0\0\0\x1cftypheic", b"\x1aE\xdf\xa3\x01", b"\0\0\1\xba"),
]
DATA = b64encode(PNG).decode()
TEXT = b64encode(b"a prompt of many words " * 3000).decode()
LONGEST_MARKS = 60  # tokens of what is around the data


def places(data: str, kind: str = "image/png") -> list[Any]:
    """Return a part for each place where a provider reads an image, sound or a video."""
    url = f"data:{kind};base64,{data}"
    return [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "input_image", "image_url": url},
        {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}},
        {"type": "tool_result", "content": [{"type": "image", "source": {"media_type": kind, "data": data}}]},
        {"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": url}},
        {"type": "file", "file": {"file_data": url, "filename": "a.png"}},
        {"type": "input_file", "file_data": url},
        {"type": "image", "mime_type": kind, "base64": data},
        {"inlineData": {"mimeType": kind, "data": data}},
        {"inline_data": {"mime_type": kind, "data": data}},
    ]


def undeclared(data: str) -> list[Any]:
    """Return a part for each place where data need not say of which type they are."""
    return [
        {"type": "image_url", "image_url": data},
        {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
        {"role": "user", "content": "look", "images": [data]},
        {"image": {"format": "png", "source": {"bytes": data}}},
    ]


def requests(parts: list[Any]) -> list[dict[str, Any]]:
    held = [{"messages": [{"role": "user", "content": [part]}]} for part in parts]
    return [*held, {"input": parts}, {"contents": [{"parts": parts}]}, {"contents": {"parts": parts}}]


@pytest.mark.parametrize("request_", requests(places(DATA)) + requests(undeclared(DATA)))
def test_media_count_as_nothing_beside_their_marks(request_: dict[str, Any]) -> None:
    assert estimate({**request_, "max_tokens": 0}) <= LONGEST_MARKS * 12


@pytest.mark.parametrize("start", STARTS)
def test_each_kind_of_file_is_known_by_how_it_begins(start: bytes) -> None:
    data = start + bytes(9000)
    for text in (b64encode(data).decode(), urlsafe_b64encode(data).decode(), data):
        request = {"messages": [{"content": [{"image": {"source": {"bytes": text}}}]}]}
        assert media_bytes(request) == len(text)


@pytest.mark.parametrize(
    "request_",
    [
        *requests(places(TEXT)),
        *requests(undeclared(TEXT)),
        *(each for kind in ("text/plain", "application/pdf", "image", "") for each in requests(places(DATA, kind))),
        *requests(places(f"{DATA}and then in words, for a provider that reads on")),
        *(
            {
                "messages": [
                    {"content": [{"type": "image", "source": {"type": kind, "media_type": "image/png", "data": DATA}}]}
                ]
            }
            for kind in ("text", ["base64"])
        ),
        {"messages": [{"content": [{"type": "document", "source": places(DATA)[2]["source"]}]}]},
        {"messages": [{"content": [{"type": "image_url", "image_url": {"url": f"data:image/svg+xml,<svg>{TEXT}"}}]}]},
        {"messages": [{"content": [{"type": "file", "file": {"file_data": DATA, "filename": "prompt.txt"}}]}]},
        *(
            {"input": [{"type": "input_file", "file_data": f"data:image/png;base64,{DATA}", "filename": name}]}
            for name in ("prompt.txt", "a.pdf", "png", "", 5)
        ),
        {"messages": [{"content": [{"type": "text", "text": DATA}]}]},
        {"messages": [{"content": [{"type": "text", "text": "", "image_url": {"url": DATA}}]}]},
        {"messages": [{"content": [{"type": "tool_use", "input": places(DATA)[2]}]}]},
        {"messages": [{"content": [{"type": "tool_use", "content": [places(DATA)[2]]}]}]},
        {"messages": [{"tool_calls": [{"function": {"arguments": places(DATA)[0]}}]}]},
        {"tools": [{"function": {"parameters": {"default": part}}} for part in places(DATA)]},
        {"system": places(DATA)},
        {"messages": [{"content": [{"type": ["image_url"], "image_url": {"url": DATA}}]}]},
    ],
)
def test_what_only_says_that_it_is_media_counts_as_text(request_: dict[str, Any]) -> None:
    assert media_bytes(request_) == 0
    assert estimate({**request_, "max_tokens": 0}) >= len(TEXT) // 4
