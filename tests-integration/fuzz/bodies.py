"""Bodies of requests to language models, drawn at random: sound ones of each API, and the same with text put anywhere.

Lives here: the forms. Never: what an estimate must be.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

LARGEST = 40_000
TEXTS = (
    "",
    "a",
    "Tell me more. ",
    "你好",
    "\U0001f600",
    '"\\\n',
    "\u0001",
    "\ud800",
    "null",
    "x" * 32,
    "image/png",
    "9 ",
)
MEDIA = (
    *(b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"GIF89a", b"RIFF\0\0\0\0WEBP", b"RIFF\0\0\0\0WAVE"),
    *(b"\0\0\0\x18ftypmp42", b"OggS\0\2", b"ID3\4\0", b"\xff\xfb\x90\x44"),
)
NO_MEDIA = (b"%PDF-1.7\n", b"a prompt of many words ", b"<svg>", b"\0\0\0\0", b"PNG", b"BM")
KINDS = ("image/png", "image/webp", "audio/wav", "video/mp4")
OTHER_KINDS = ("text/plain", "application/pdf", "", "image", "application/octet-stream")
NAMES = (
    *("messages", "content", "parts", "type", "role", "source", "data", "image_url", "url", "input_audio", "file_data"),
    *("enum", "properties", "anyOf", "const", "default", "metadata", "unheard_of", "tools", "output", "inlineData"),
)


@dataclass
class Body:
    """A body as its client sends it; the data of its media; those that stand where no media do, until damage moves
    them; the answers that it asks for, unless it is damaged.
    """

    sent: dict[str, Any]
    media: list[str] = field(default_factory=list)
    misplaced: list[str] = field(default_factory=list)
    answers: int = 0
    damaged: bool = False

    def least_bytes(self) -> int:
        """Return the bytes that are not media: of a damaged body all media are left out, wherever they have come."""
        size = len(json.dumps(self.sent, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
        if not self.damaged:
            return size - sum(map(len, self.media))
        known = sorted({*self.media, *self.misplaced}, key=len, reverse=True)
        return size - sum(next((len(each) for each in known if each in text), 0) for text in _texts(self.sent))


def draw(random: Random) -> Body:
    """Return a small body of one of the APIs: every second one damaged."""
    while True:
        body = Drawing(random).body()
        for _ in range(random.choice([0, 0, 0, 1, 2, 5])):
            if _is_small(body):  # damage repeats parts of parts
                body.damaged = True
                _damage(random, body)
        if _is_small(body):
            return body


def _is_small(body: Body) -> bool:
    return len(json.dumps(body.sent)) <= LARGEST


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    parts = [*value.keys(), *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        yield from _texts(part)


def _holders(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        yield value
        for part in value.values() if isinstance(value, dict) else value:
            yield from _holders(part)


def _damage(random: Random, body: Body) -> None:
    holder = random.choice(list(_holders(body.sent)))
    drawing = Drawing(random)
    drawing.misplaced = body.misplaced
    ways: list[Callable[[], Any]] = [drawing.text, drawing.long, drawing.schema, drawing.number]
    ways.append(lambda: random.choice(NAMES))
    new = random.choice(ways)()
    if isinstance(holder, list):
        where = random.randint(0, len(holder))
        holder[where : where + random.randint(0, 1)] = [new] * random.choice([1, 1, 1, 4])
    elif holder and random.random() < 0.5:
        name = random.choice(list(holder))
        holder[name] = random.choice([new, [holder[name]], {random.choice(NAMES): holder[name]}])
    else:
        holder[random.choice([random.choice(NAMES), drawing.text(), drawing.long()])] = new


class Drawing:
    """One body, part by part."""

    def __init__(self, random: Random) -> None:
        self.random, self.media, self.misplaced = random, list[str](), list[str]()

    def body(self) -> Body:
        """Return a body of one of the APIs."""
        forms: list[Callable[[], dict[str, Any]]] = [
            *(self.chat, self.chat, self.completion, self.responses, self.embeddings, self.messages, self.rerank),
            *(self.speech, self.images, self.contents, self.old_chat),
        ]
        sent = {"model": "m", **self.random.choice(forms)()}
        longest, each = self.random.randint(0, 9000), 1
        sent[self.random.choice(["max_tokens", "max_completion_tokens", "max_output_tokens"])] = longest
        for name in ("n", "best_of"):
            if self.random.random() < 0.2:
                sent[name] = self.random.randint(1, 128)
                each = max(each, sent[name])
        return Body(sent, self.media, self.misplaced, longest * each)

    def some(self, make: Callable[[], Any], most: int = 4) -> list[Any]:
        """Return a few of them, seldom many."""
        return [make() for _ in range(self.random.choice([0, 1, 1, 1, 1, 2, 2, most]))]

    def text(self) -> str:
        return self.random.choice(TEXTS) * self.random.choice([1, 1, 2, 30])

    def long(self) -> str:
        return (self.random.choice(TEXTS) or "y") * self.random.choice([20, 60, 60, 900])

    def number(self) -> Any:
        return self.random.choice([0, 1, -1, 10**15, 0.1, 1e300, True, None])

    def data(self) -> str:
        """Return base64 of media."""
        start = self.random.choice(MEDIA)
        self.media.append(b64encode(start + self.random.randbytes(self.random.choice([30, 300]))).decode())
        return self.media[-1]

    def no_data(self) -> str:
        """Return what is not media, though it may say so."""
        return b64encode(self.random.choice(NO_MEDIA) * self.random.choice([1, 100])).decode()

    def lies(self) -> Any:
        """Return a part that says of a text that it is media, or of media that they are a text."""
        random, kind, other = self.random, self.random.choice(KINDS), self.random.choice(OTHER_KINDS)
        real = b64encode(random.choice(MEDIA) + random.randbytes(300)).decode()
        self.misplaced.append(real)
        url = random.choice([f"data:{kind};base64,{self.no_data()}", f"data:{other};base64,{real}", f"{real} and on"])
        return random.choice(
            [
                {"type": "image_url", "image_url": {"url": url}},
                {"type": "input_image", "image_url": url},
                {"type": "input_audio", "input_audio": {"data": self.no_data(), "format": "wav"}},
                {"type": "image", "source": {"type": "base64", "media_type": kind, "data": self.no_data()}},
                {"type": "document", "source": {"type": "base64", "media_type": kind, "data": real}},
                {"type": "file", "file": {"filename": "a.png", "file_data": random.choice([url, real])}},
                {"inlineData": {"mimeType": other, "data": real}},
                {"type": "text", "text": real},
                {"type": "tool_use", "input": {"type": "image", "source": {"type": "base64", "data": real}}},
            ]
        )

    def part(self) -> Any:
        """Return a part of a message."""
        kind = self.random.choice(KINDS)
        match self.random.randrange(8):
            case 0:
                return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{self.data()}"}}
            case 1:
                return {"type": "input_audio", "input_audio": {"data": self.data(), "format": "wav"}}
            case 2:
                return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": self.data()}}
            case 3:
                return {"type": "tool_result", "tool_use_id": "1", "content": self.some(self.part, 2)}
            case 4:
                return self.lies()
            case 5:
                return {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
            case _:
                return {"type": "text", "text": self.text()}

    def message(self) -> Any:
        """Return a message."""
        ways: list[Callable[[], Any]] = [self.text, self.long, lambda: self.some(self.part)]
        content = self.random.choice(ways)()
        message = {"role": self.random.choice(["user", "assistant", "system", "tool"]), "content": content}
        if self.random.random() < 0.2:
            arguments = json.dumps({self.text(): self.text()})
            message["tool_calls"] = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}]
        return message

    def schema(self, depth: int = 3) -> Any:
        """Return a JSON schema."""
        match self.random.randrange(6 if depth else 3):
            case 0:
                return {"type": "string", "enum": self.some(self.text, 30)}
            case 1:
                return {"const": self.random.choice([self.number(), self.lies()])}
            case 2:
                return {"type": "number", "description": self.text()}
            case 3:
                names = self.some(lambda: f"{self.random.randrange(10**6):032}", 60)
                return {"type": "object", "properties": {name: {} for name in names}, "required": names[:3]}
            case 4:
                return {"anyOf": [{"type": "null"}] * self.random.choice([2, 100])}
            case _:
                return {"type": "object", "properties": {self.text(): self.schema(depth - 1)}}

    def tool(self) -> Any:
        """Return a tool."""
        function = {"name": "f", "description": self.text(), "parameters": self.schema()}
        return self.random.choice([{"type": "function", "function": function}, {"name": "f", "input_schema": function}])

    def chat(self) -> dict[str, Any]:
        wanted = {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": self.schema()}}}
        more: list[dict[str, Any]] = [
            {},
            {},
            wanted,
            {"stop": self.text()},
            {"prediction": {"type": "content", "content": self.text()}},
        ]
        return {"messages": self.some(self.message, 12), "tools": self.some(self.tool), **self.random.choice(more)}

    def old_chat(self) -> dict[str, Any]:
        return {"messages": self.some(self.message), "functions": self.some(self.tool), "stream": True}

    def completion(self) -> dict[str, Any]:
        return {"prompt": self.random.choice([self.text, self.long, self.tokens])(), "suffix": self.text()}

    def tokens(self) -> Any:
        """Return a prompt that is tokens already."""
        return [self.random.choice([5, 77, 1234, 199_999]) for _ in range(self.random.choice([1, 30, 300]))]

    def responses(self) -> dict[str, Any]:
        given = self.random.choice([self.text, self.items])()
        return {"input": given, "instructions": self.text(), "tools": [self.schema()]}

    def items(self) -> Any:
        """Return the input of a response."""
        image = {"type": "input_image", "image_url": f"data:image/png;base64,{self.data()}"}
        output = {"type": "function_call_output", "call_id": "1", "output": self.some(self.part)}
        return [self.random.choice([self.message, self.part])(), image, output]

    def embeddings(self) -> dict[str, Any]:
        ways: list[Callable[[], Any]] = [self.text, self.tokens, lambda: self.some(self.long)]
        return {"input": self.random.choice(ways)(), "dimensions": 9}

    def messages(self) -> dict[str, Any]:
        system = [{"type": "text", "text": self.text(), "cache_control": {"type": "ephemeral"}}]
        return {"system": system, "messages": self.some(self.message), "tools": self.some(self.tool)}

    def rerank(self) -> dict[str, Any]:
        return {"query": self.text(), "documents": self.some(lambda: {"text": self.text()}, 100), "top_n": 3}

    def speech(self) -> dict[str, Any]:
        return {"input": self.text(), "voice": "alloy", "instructions": self.text()}

    def images(self) -> dict[str, Any]:
        return {"prompt": self.random.choice([self.text(), self.long()]), "size": "1024x1024", "user": self.text()}

    def contents(self) -> dict[str, Any]:
        image = {"inlineData": {"mimeType": "image/png", "data": self.data()}}
        return {"contents": [{"role": "user", "parts": [{"text": self.text()}, image]}], "tools": [self.schema()]}
