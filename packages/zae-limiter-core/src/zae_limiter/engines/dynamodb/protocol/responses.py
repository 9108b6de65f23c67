"""Read bytes of HTTP/1.1 answers as responses.

https://www.rfc-editor.org/rfc/rfc9112
"""

from typing import Final

from ....operations.errors import OutcomeUnknown
from ....runtime.named_tuple import NamedTuple

LONGEST_HEAD: Final = 65_536
LONGEST_LINE: Final = 4096  # before a chunk
LONGEST_TRAILERS: Final = 8192
LONGEST_BODY: Final = 64 * 1024 * 1024  # an answer of DynamoDB has at most 16 MB
END_OF_HEAD: Final = b"\r\n\r\n"


class Response(NamedTuple):
    """A whole answer; names of ``headers`` are in lower case. ``reusable``: the connection may serve another call."""

    status: int
    headers: dict[str, str]
    body: bytes
    reusable: bool


class ResponseReader:
    """Reads one response from the bytes of a connection, in a time that grows with their number, however they come."""

    __slots__ = ("_buffer", "_chunks", "_headers", "_status")

    def __init__(self) -> None:
        self._buffer = bytearray()  # which grows without a copy
        self._chunks = bytearray()  # the body so far, of an answer in chunks
        self._status = 0
        self._headers: dict[str, str] | None = None

    def feed(self, data: bytes) -> Response | None:
        """Return the response if it is whole. Raises ``OutcomeUnknown`` for bytes that are not a response."""
        self._buffer += data
        while self._headers is None:
            if not self._read_head():
                return None
        return self._read_body(self._headers, ended=False)

    def end(self) -> Response:
        """Return the response that the end of the connection completes. Raises ``OutcomeUnknown`` for a part of one."""
        if self._headers is not None and (response := self._read_body(self._headers, ended=True)) is not None:
            return response
        part = "in the middle of its answer" if self._buffer or self._headers is not None else "without an answer"
        raise OutcomeUnknown(f"the store closed the connection {part}")

    def _read_head(self) -> bool:
        """Return whether the buffer had a whole head; skip an interim one (1xx)."""
        end = self._buffer.find(END_OF_HEAD)
        if end < 0:
            if len(self._buffer) > LONGEST_HEAD:
                raise OutcomeUnknown("the head of the answer is too long")
            return False
        status, headers = _parse_head(self._buffer[:end])
        del self._buffer[: end + len(END_OF_HEAD)]
        if status >= 200:
            self._status, self._headers = status, headers
        return True

    def _read_body(self, headers: dict[str, str], *, ended: bool) -> Response | None:
        length = headers.get("content-length")
        if "transfer-encoding" in headers:
            if headers["transfer-encoding"].lower() != "chunked":
                raise OutcomeUnknown(f"the answer has the transfer encoding {headers['transfer-encoding']!r}")
            found = self._chunked()
        elif length is not None:
            found = self._sized(length)
        elif self._status in {204, 304}:
            found = b"", self._buffer
        else:
            found = (bytes(self._buffer), bytearray()) if ended else None
        if found is None:
            if len(self._buffer) + len(self._chunks) > LONGEST_BODY:
                raise OutcomeUnknown("the answer is too long")
            return None
        body, rest = found
        keeps = headers.get("connection", "").lower() != "close" and not ended and not rest
        return Response(self._status, headers, body, keeps)

    def _sized(self, length: str) -> tuple[bytes, bytearray] | None:
        if not length.isascii() or not length.isdigit() or len(length) > 9 or int(length) > LONGEST_BODY:
            raise OutcomeUnknown(f"the answer has the length {length[:32]!r}")
        size = int(length)
        return (bytes(self._buffer[:size]), self._buffer[size:]) if len(self._buffer) >= size else None

    def _chunked(self) -> tuple[bytes, bytearray] | None:
        """Take the whole chunks out of the buffer; return the body and the bytes behind it, ``None`` before its end."""
        buffer, at = self._buffer, 0
        found = None
        while (end := buffer.find(b"\r\n", at)) >= 0:
            size, begin = _chunk_size(bytes(buffer[at:end])), end + 2
            if size == 0:
                if (behind := _behind_trailers(buffer, end)) is not None:
                    found = bytes(self._chunks), buffer[behind:]
                break
            if len(buffer) < begin + size + 2:
                break
            if buffer[begin + size : begin + size + 2] != b"\r\n":
                raise OutcomeUnknown("a chunk of the answer has another size than it says")
            self._chunks += buffer[begin : begin + size]
            at = begin + size + 2
        else:
            if len(buffer) - at > LONGEST_LINE:
                raise OutcomeUnknown("the size of a chunk of the answer is too long")
        del buffer[:at]
        return found


def _parse_head(head: bytearray) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/1.") or not (code.isascii() and code.isdigit() and len(code) == 3):
        raise OutcomeUnknown("the answer is not HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip()
        if headers.setdefault(name, value) != value and name == "content-length":
            raise OutcomeUnknown("the answer has two lengths")
    if version == "HTTP/1.0":
        headers.setdefault("connection", "close")
    return int(code), headers


def _chunk_size(line: bytes) -> int:
    digits = line.split(b";", 1)[0].strip()
    try:
        size = int(digits, 16)
    except ValueError:
        size = -1
    if not 0 <= size <= LONGEST_BODY or not digits.isalnum():
        raise OutcomeUnknown(f"a chunk of the answer has the size {line[:32]!r}")
    return size


def _behind_trailers(buffer: bytearray, at: int) -> int | None:
    """Return the place behind the trailers of a body whose last chunk's line ends at ``at``; ``None`` before their
    end.
    """
    end = buffer.find(END_OF_HEAD, at)
    if end < 0 and len(buffer) - at > LONGEST_TRAILERS:
        raise OutcomeUnknown("the trailers of the answer are too long")
    return None if end < 0 else end + len(END_OF_HEAD)
