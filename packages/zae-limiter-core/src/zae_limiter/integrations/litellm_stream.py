"""What a stream of LiteLLM's proxy has used. ``litellm`` imports it once LiteLLM is there."""

import logging
from collections.abc import Mapping
from typing import Any

import litellm
from litellm.types.utils import ModelResponseStream

from .litellm_later import later_id
from .tokens import CHARACTERS_PER_TOKEN
from .usage import TokenUsage, UsageReader, read_usage

log = logging.getLogger(__name__)


class Stream:
    """The usage that a stream reports, and what came of it.

    Only the provider's own word lowers an estimate: a model thinks unseen, and goes on when its client has left.
    """

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._request = request
        self._reader = UsageReader()
        self._parts: list[Any] = []
        self._characters = 0
        self._begun = self._ended = False
        self.later_id = ""  # under which the answer can be fetched, whatever becomes of the stream

    def add(self, part: Any) -> None:
        """Take a part of the answer."""
        self._begun = True
        self._reader.add(part)
        if isinstance(part, ModelResponseStream):
            self._parts.append(part)
        else:
            self.later_id = later_id(self._request, getattr(part, "response", None)) or self.later_id
            self._ended = self._reader.whole  # a client may leave after the last event, before the stream ends
            text = getattr(part, "delta", None)  # of the responses API
            self._characters += len(text) if isinstance(text, str) else 0

    def end(self) -> None:
        """Note that no part is missing."""
        self._ended = True

    @property
    def whole(self) -> bool:
        """Whether the provider has told all tokens of the call."""
        return self._ended and self._reader.usage is not None

    @property
    def usage(self) -> TokenUsage | None:
        """All tokens of the call; without the usage of all of it, what has come of it; ``None`` if nothing has."""
        if self.whole or not self._begun:
            return self._reader.usage
        told = [each for each in (self._reader.so_far, self._counted()) if each is not None]
        return max(told, key=lambda usage: usage.total, default=None)

    def _counted(self) -> TokenUsage | None:
        if not self._parts:
            return TokenUsage(output=-(-self._characters // CHARACTERS_PER_TOKEN))
        try:
            return read_usage(litellm.stream_chunk_builder(self._parts, messages=self._request.get("messages")))
        except litellm.exceptions.APIError:
            log.warning("the tokens of a stream could not be counted; the estimate stays", exc_info=True)
        return None
