"""Streams of language models that end when their limit is reached: at what was delivered, and as their API ends one.

Give the events of a stream, and the ``Pieces`` of its lease: chunks of chat completions or of ``/v1/responses``, events
of Anthropic's messages, as objects of their libraries, as mappings, or as server-sent events (``events_of``). Each part
is counted before it is delivered; one that no piece pays for is not, the provider is closed, and the last events say
``length`` or ``max_tokens``, with the refusal in their field ``rate_limit``.

What a part counts is an estimate, four bytes to a token or by a ``count`` of yours; text outside whole events counts
by its bytes. At the end the usage of the provider settles the lease, exactly, if it came. A stream that is cut, left or
broken off is settled for what was delivered. Needs no library.
"""

import logging
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import suppress
from inspect import isawaitable
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar, get_args

from ..aio.lease import DrawLease, Lease
from ..exceptions import ContentionError, LeaseExpiredError, RateLimiterUnavailable
from ..http import Show
from ..streams.aio.pieces import Pieces
from ..streams.sync.pieces import SyncPieces
from ..sync.lease import SyncDrawLease, SyncLease
from ..values.refusal import RateLimitExceeded
from ..values.token_usage import MOST_TOKENS, TokenUsage
from .answers import Answers
from .endings import Ending, like
from .litellm_stream import Stream, heard_of
from .settlement import settle, settle_sync
from .tokens import BYTES_PER_TOKEN, estimate_prompt
from .usage import documents, parsed

T = TypeVar("T")
P = TypeVar("P", Pieces, SyncPieces)
Cut: TypeAlias = RateLimitExceeded | RateLimiterUnavailable | ContentionError
CUT: Final = get_args(Cut)
log = logging.getLogger(__name__)


class _Cutting(Generic[T, P]):
    """What a stream has brought, and how it ends: for both variants."""

    def __init__(
        self,
        pieces: tuple[P, ...],
        request: Mapping[str, Any] | None,
        count: Callable[[Any], int] | None,
        most: int | None,
        show: Show,
    ) -> None:
        self.cut: Cut | None = None
        for each in pieces:
            each._serve()
        self._pieces: tuple[P, ...] = pieces
        self._count, self._most = count, most
        self._answers = Answers(show=show)
        least = 0 if request is None else estimate_prompt(request)
        self._stream = Stream({}, least=least, measure=self._measure)
        self._ending = Ending()
        self._brought = 0
        self._broken = False  # whether the last part ended within a line that counted as text
        self._documents: list[object] = []
        self.delivered = TokenUsage(input=least)

    def _measure(self, document: object) -> int:
        size = heard_of(document)
        if size and self._count is not None:
            try:
                size = self._count(document) * BYTES_PER_TOKEN
            except Exception:
                log.exception("an event counts by its bytes: the count of a CutStream failed")
                self._count = None
        self._brought += size
        return size

    def _asks(self, part: T) -> TokenUsage | None:
        """Take a part in; return what the stream has used with it, ``None`` where it may be delivered as it is."""
        self._brought, self._documents = 0, [*documents(part)]
        for document in self._documents:
            self._stream.add(document)
        if isinstance(part, str | bytes) and (unread := self._unread(part)):
            self._brought += unread
            self._stream.hear("part", unread)
        return self._stream.usage if self._brought and not self._stream.whole else None

    def _unread(self, part: str | bytes) -> int:
        """Return the bytes of a part outside whole events, without marks and comments: they count as text."""
        raw = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        first, *others = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        said = [line for line in others if _is_said(line)]
        if first and (self._broken or _is_said(first)):  # the rest of a line is text, whatever it begins with
            said.insert(0, first)
        if len(said) == len(self._documents) or (len(self._documents) == 1 and parsed(part) is not None):
            said = []
        unread = [line for line in said if parsed(line.removeprefix(b"data:")) is None]
        self._broken = bool(unread) and [first, *others][-1] == unread[-1]
        return sum(map(len, unread))

    def _note(self, part: T) -> T:
        for document in self._documents:
            self._ending.add(document)
        self.delivered = self._stream.usage
        return part

    def _end(self) -> None:
        """Note that no part is missing: what the provider has counted is all."""
        self._stream.end()
        self.delivered = self._stream.usage

    def _closing(self, part: T) -> Iterator[T]:
        assert self.cut is not None
        why, _ = self._answers.document(self.cut)
        refused = self._documents[0] if self._documents else self._ending.last
        return like(part, self._ending.documents(refused, self.delivered, why))

    def _amounts(self, pieces: P, usage: TokenUsage) -> dict[str, int]:
        """Return what a limit without weights counts: the tokens of all kinds."""
        return (
            {}
            if _has_price(pieces.lease)
            else dict.fromkeys(pieces.sizes - pieces.lease.weights.keys(), min(usage.total, MOST_TOKENS))
        )

    def _tokens(self) -> set[str]:
        """Return the limits of the lease that count the tokens of all kinds."""
        own = [each for each in self._pieces if not isinstance(each.lease, DrawLease | SyncDrawLease)]
        return {name for each in own for name in self._amounts(each, self.delivered)}


class CutStream(_Cutting[T, Pieces]):
    """A stream on an event loop: iterate it in place of ``parts``, and close it, or use ``async with``.

    ``pieces`` are those of the lease, and of draws that have pieces of their own; a limit without weights counts the
    tokens of all kinds. ``request`` is what the provider was asked, for the tokens of the prompt; ``count`` returns
    the tokens of an event's text; ``most`` is the bound of ``lease.settle``. Then ``cut`` is why it was cut, ``None``
    if it was not, and ``delivered`` what it has used.
    """

    def __init__(
        self,
        parts: AsyncIterable[T],
        *pieces: Pieces,
        request: Mapping[str, Any] | None = None,
        count: Callable[[Any], int] | None = None,
        most: int | None = None,
        show: Show = "own",
    ) -> None:
        super().__init__(pieces, request, count, most, show)
        self._parts = parts
        self._flow = self._flowing()

    def __aiter__(self) -> AsyncIterator[T]:
        return self._flow

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the stream where it is: the provider is closed, and the lease settled for what was delivered."""
        await self._flow.aclose()

    async def _flowing(self) -> AsyncGenerator[T, None]:
        try:
            async for part in self._parts:
                if not await self._admits(part):
                    await _close(self._parts)
                    for each in self._closing(part):
                        yield each
                    return
                yield self._note(part)
            self._end()
        finally:
            await _close(self._parts)
            with suppress(LeaseExpiredError):  # it was collected after its block: the pieces have settled it
                await self._settle()

    async def _admits(self, part: T) -> bool:
        try:
            if (usage := self._asks(part)) is not None:
                for each in self._pieces:
                    await each.reach(usage, **self._amounts(each, usage))
        except CUT as error:
            self.cut = error
        return self.cut is None

    async def _settle(self) -> None:
        for each in self._pieces:
            each.end()
        for lease in {_owner(each.lease) for each in self._pieces}:
            await settle(lease, self._tokens(), self.delivered, self._most)


class SyncCutStream(_Cutting[T, SyncPieces]):
    """A stream on a thread, as ``CutStream``."""

    def __init__(
        self,
        parts: Iterable[T],
        *pieces: SyncPieces,
        request: Mapping[str, Any] | None = None,
        count: Callable[[Any], int] | None = None,
        most: int | None = None,
        show: Show = "own",
    ) -> None:
        super().__init__(pieces, request, count, most, show)
        self._parts = parts
        self._flow = self._flowing()

    def __iter__(self) -> Iterator[T]:
        return self._flow

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the stream where it is: the provider is closed, and the lease settled for what was delivered."""
        self._flow.close()

    def _flowing(self) -> Generator[T, None, None]:
        try:
            for part in self._parts:
                if not self._admits(part):
                    _close_sync(self._parts)
                    yield from self._closing(part)
                    return
                yield self._note(part)
            self._end()
        finally:
            _close_sync(self._parts)
            with suppress(LeaseExpiredError):
                self._settle()

    def _admits(self, part: T) -> bool:
        try:
            if (usage := self._asks(part)) is not None:
                for each in self._pieces:
                    each.reach(usage, **self._amounts(each, usage))
        except CUT as error:
            self.cut = error
        return self.cut is None

    def _settle(self) -> None:
        for each in self._pieces:
            each.end()
        for lease in {_owner_sync(each.lease) for each in self._pieces}:
            settle_sync(lease, self._tokens(), self.delivered, self._most)


async def events_of(parts: AsyncIterable[str] | AsyncIterable[bytes]) -> AsyncGenerator[str, None]:
    """Yield whole server-sent events from bytes, such as those of ``response.aiter_bytes()`` of httpx, or from lines.

    The lines of ``response.aiter_lines()`` also end within a text, at characters such as U+2028.
    """
    events = _Events()
    async for part in parts:
        for event in events.add(part):
            yield event
    for event in events.end():
        yield event


def sync_events_of(parts: Iterable[str] | Iterable[bytes]) -> Generator[str, None, None]:
    """Yield whole server-sent events from bytes, such as those of ``response.iter_bytes()`` of httpx, or from lines."""
    events = _Events()
    for part in parts:
        yield from events.add(part)
    yield from events.end()


class _Events:
    """Puts server-sent events together."""

    def __init__(self) -> None:
        self._line = b""
        self._lines: list[str] = []

    def add(self, part: str | bytes) -> Iterator[str]:
        """Take a line, or bytes; yield the events that are whole by now."""
        if isinstance(part, str):
            lines = [part]
        else:
            *found, self._line = (self._line + part).split(b"\n")
            lines = [line.removesuffix(b"\r").decode(errors="replace") for line in found]
        for line in lines:
            self._lines.append(f"{line}\n")
            if not line:
                yield "".join(self._lines)
                self._lines.clear()

    def end(self) -> Iterator[str]:
        """Yield what is left."""
        if self._line:
            yield from self.add(b"\n")
        if self._lines:
            yield "".join([*self._lines, "\n"])


def _is_said(line: bytes) -> bool:
    """Whether a line may have text, unlike comments, and marks such as ``[DONE]``."""
    mark = line.startswith((b":", b"event:", b"id:", b"retry:")) or line.removeprefix(b"data:").strip() == b"[DONE]"
    return bool(line) and not mark


def _has_price(lease: object) -> bool:
    return isinstance(lease, DrawLease | SyncDrawLease) and lease.has_price


def _owner(lease: Lease | DrawLease) -> Lease:
    return lease._lease if isinstance(lease, DrawLease) else lease


def _owner_sync(lease: SyncLease | SyncDrawLease) -> SyncLease:
    return lease._lease if isinstance(lease, SyncDrawLease) else lease


def _close_sync(parts: object) -> None:
    """Close what brings the parts, if it can be closed."""
    if callable(close := getattr(parts, "close", None)):
        close()


async def _close(parts: object) -> None:
    """Close what brings the parts, if it can be closed: a client's stream, or a generator."""
    close = getattr(parts, "aclose", None) or getattr(parts, "close", None)
    if callable(close):
        closing = close()
        if isawaitable(closing):
            await closing
