"""Messages that are read early reach the application, in their order, once."""

import asyncio
from typing import Any

import pytest

from zae_limiter.integrations.inbox import MOST_READ, Inbox, Message

GONE = {"type": "http.disconnect"}


def body(part: bytes) -> Message:
    return {"type": "http.request", "body": part, "more_body": True}


def inbox(*messages: Message) -> tuple[Inbox, "asyncio.Queue[Message]"]:
    queue: asyncio.Queue[Message] = asyncio.Queue()
    for message in messages:
        queue.put_nowait(message)
    return Inbox(queue.get), queue


async def test_what_was_read_early_comes_first() -> None:
    early, queue = inbox(body(b"a"), body(b"b"), GONE)
    assert await early.get() == body(b"a")
    assert await early.until_gone()
    queue.put_nowait(body(b"never"))
    assert [await early.get(), await early.get()] == [body(b"b"), GONE]


async def test_a_large_body_stays_with_the_server() -> None:
    early, queue = inbox(*[body(bytes(MOST_READ // 2))] * 9)
    assert not await early.until_gone()
    assert queue.qsize() == 7
    assert [await early.get() for _ in range(9)] == [body(bytes(MOST_READ // 2))] * 9


@pytest.mark.parametrize("arrives", ["before the cancellation", "with it", "after it"])
async def test_a_cancelled_watcher_loses_no_message(arrives: str) -> None:
    early, queue = inbox()
    watching = asyncio.ensure_future(early.until_gone())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    if arrives == "before the cancellation":
        queue.put_nowait(body(b"a"))
        await asyncio.sleep(0)
    if arrives == "with it":
        queue.put_nowait(body(b"a"))
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    if arrives == "after it":
        queue.put_nowait(body(b"a"))
    queue.put_nowait(GONE)
    assert [await early.get(), await early.get()] == [body(b"a"), GONE]


async def test_a_closed_inbox_leaves_no_task() -> None:
    early, _ = inbox()
    watching = asyncio.ensure_future(early.until_gone())
    await asyncio.sleep(0)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    early.close()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_server_that_fails_tells_the_application() -> None:
    async def receive() -> Any:
        raise OSError("the socket is gone")

    early = Inbox(receive)
    for reading in (early.until_gone, early.get):
        with pytest.raises(OSError, match="the socket is gone"):
            await reading()
