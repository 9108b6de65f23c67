"""An event source mapping with a tumbling window, as AWS documents it, for one shard of the stream.

Lives here: its events, and which state and records come next. Never: a claim.
"""

import json
from collections.abc import Sequence
from typing import Any

from zae_limiter_aggregator.held import TumblingWindow

from .lives import Life, MortalStore
from .streams import ARN, LABEL, Record, record

NOISE = [record(number, None, {"PK": "ns/ENTITY#a", "SK": "#META"}) for number in range(100)]
"""As many records as make a batch one of a busy stream, and mean nothing."""

Event = dict[str, Any]
Answer = dict[str, Any]


class WindowedMapping:
    """What comes next: the records from ``position`` on, with ``state``. A window begins at ``checkpoint``."""

    def __init__(self, life: Life, records: Sequence[Record]) -> None:
        self.life = life
        self.records = records
        self.position = self.checkpoint = 0
        self.state: dict[str, Any] = {}

    @property
    def is_done(self) -> bool:
        """Whether all has been delivered, and the last window has ended."""
        return self.position == self.checkpoint == len(self.records)

    def event(self, end: int, *, busy: bool = False, ends: bool = False, early: bool = False) -> Event:
        """The event of the records up to ``end``; ``ends`` the window, or ``early``."""
        batch = self.records[self.position : end]
        return {
            "Records": [*NOISE, *batch] if busy and batch else list(batch),
            "window": {"start": "2024-01-01T13:50:00Z", "end": "2024-01-01T13:50:30Z"},
            "state": self.state,
            "shardId": "shardId-00000001",
            "eventSourceARN": ARN + LABEL,
            "isFinalInvokeForWindow": ends,
            "isWindowTerminatedEarly": early,
        }

    def invoke(self, event: Event, store: MortalStore | None = None) -> Answer:
        """The answer of an invocation, cold; over JSON, as Lambda has both."""
        read = json.loads(json.dumps(event))
        window = TumblingWindow.of_event(read)
        assert window is not None
        result = self.life.take(read["Records"], store, window=window)
        answer = {"failures": [each.sequence for each in result.failures], "state": result.window.state}
        return dict(json.loads(json.dumps(answer)))

    def accept(self, event: Event, answer: Answer, *, end: int, state: dict[str, Any] | None = None) -> None:
        """Go on behind a batch, or at its first failure, with the answer's state or another one."""
        numbers = [each["dynamodb"]["SequenceNumber"] for each in self.records]
        failed = [numbers.index(each) for each in answer["failures"]]
        self.position = min([end, *failed])
        self.state = answer["state"] if state is None else state
        if not failed and (event["isFinalInvokeForWindow"] or event["isWindowTerminatedEarly"]):
            assert answer["state"] == {}
            self.checkpoint = self.position

    def lose(self) -> None:
        """Lose the state: the window begins again, as its records were not checkpointed."""
        self.position, self.state = self.checkpoint, {}
