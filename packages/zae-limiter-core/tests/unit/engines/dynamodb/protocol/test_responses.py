"""Bytes as responses: whole, in parts, damaged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter.engines.dynamodb.protocol.responses import (
    LONGEST_HEAD,
    LONGEST_LINE,
    LONGEST_TRAILERS,
    Response,
    ResponseReader,
)
from zae_limiter.operations.errors import OutcomeUnknown

SIZED = b"HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nX-Trailer: 1\r\n\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n" + SIZED
CLOSED = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"


def read(*parts: bytes, ended: bool = False) -> Response | None:
    reader = ResponseReader()
    response = None
    for part in parts:
        assert response is None
        response = reader.feed(part)
    return reader.end() if ended else response


@pytest.mark.parametrize(("data", "status"), [(SIZED, 200), (CHUNKED, 400), (INTERIM, 200)])
def test_a_response_is_read_from_parts_of_any_size(data: bytes, status: int) -> None:
    for size in range(1, len(data) + 1):
        response = read(*(data[at : at + size] for at in range(0, len(data), size)))
        assert response is not None
        assert (response.status, response.body, response.reusable) == (status, b"hello", True)


def test_the_names_of_headers_are_in_lower_case() -> None:
    response = read(SIZED)
    assert response is not None
    assert response.headers == {"date": "now", "content-length": "5"}


def test_a_response_without_a_length_ends_with_the_connection() -> None:
    assert read(CLOSED) is None
    response = read(CLOSED, ended=True)
    assert response == Response(200, {"connection": "close"}, b"hello", False)


@pytest.mark.parametrize(
    "data",
    [SIZED + b"more", SIZED.replace(b"Date: now", b"Connection: close"), SIZED.replace(b"1.1", b"1.0", 1)],
    ids=["bytes behind it", "close", "HTTP/1.0"],
)
def test_a_connection_that_cannot_be_used_again_says_so(data: bytes) -> None:
    response = read(data)
    assert response is not None
    assert (response.body, response.reusable) == (b"hello", False)


def test_a_status_that_has_no_body_ends_with_its_head() -> None:
    assert read(b"HTTP/1.1 204 No Content\r\n\r\n") == Response(204, {}, b"", True)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "without an answer"),
        (SIZED[:10], "in the middle"),
        (SIZED[:-1], "in the middle"),
        (CHUNKED[:-1], "in the middle"),
    ],
)
def test_a_connection_that_ends_too_early_leaves_the_outcome_unknown(data: bytes, problem: str) -> None:
    with pytest.raises(OutcomeUnknown, match=problem):
        read(data, ended=True)


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2x0\r\n\r\n",
        SIZED.replace(b": 5", b": -5"),
        SIZED.replace(b": 5", b": 5, 5"),
        SIZED.replace(b": 5", b": 99999999999"),
        SIZED.replace(b": 5", b": " + b"5" * 5000),
        SIZED.replace(b"Date: now", b"Content-Length: 4"),
        CHUNKED.replace(b"3;x=y", b"-3"),
        CHUNKED.replace(b"3;x=y", b"zz"),
        CHUNKED.replace(b"3;x=y", b"fffffffffff"),
        CHUNKED.replace(b"3;x=y", b"4"),
        CHUNKED.replace(b"chunked", b"gzip"),
        b"x" * (LONGEST_HEAD + 1),
    ],
)
def test_bytes_that_are_no_response_leave_the_outcome_unknown(data: bytes) -> None:
    with pytest.raises(OutcomeUnknown):
        read(data)


@given(
    st.sampled_from((SIZED, CHUNKED, INTERIM, CLOSED)), st.lists(st.tuples(st.integers(0, 120), st.binary(max_size=4)))
)
def test_damaged_bytes_are_a_response_or_an_unknown_outcome(data: bytes, damage: list[tuple[int, bytes]]) -> None:
    for at, replacement in damage:
        data = data[:at] + replacement + data[at + 1 :]
    reader = ResponseReader()
    try:
        response = reader.feed(data) or reader.end()
    except OutcomeUnknown:
        return
    assert 200 <= response.status < 1000


ENDLESS = {
    "the line before a chunk": (b"1;" + b"x" * LONGEST_LINE, "size of a chunk"),
    "the line before a later chunk": (b"1\r\nx\r\n1;" + b"x" * LONGEST_LINE, "size of a chunk"),
    "trailers": (b"0\r\n" + b"a: b\r\n" * (LONGEST_TRAILERS // 6 + 1), "trailers"),
    "one trailer": (b"0\r\n" + b"a" * (LONGEST_TRAILERS + 1), "trailers"),
}


@pytest.mark.parametrize(("framing", "problem"), ENDLESS.values(), ids=list(ENDLESS))
@pytest.mark.parametrize("size", [1, 100, 100_000])
def test_what_frames_the_chunks_of_a_body_is_bounded(framing: bytes, problem: str, size: int) -> None:
    """What is read again with each part is never longer than that."""
    reader = ResponseReader()
    reader.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    parts = (framing[at : at + size] for at in range(0, len(framing), size))
    with pytest.raises(OutcomeUnknown, match=problem):
        assert not any(map(reader.feed, parts))
