"""Run a reader for each event source mapping of an existing stream."""

import logging
import threading
from collections.abc import Mapping as Attributes
from typing import Any, Final

from .checkpoints import Checkpoints
from .mapping import Mapping
from .reader import Clients, Reader

LOOK_SECONDS: Final = 1.0
STOP_SECONDS: Final = 2.0

logger = logging.getLogger(__name__)


class Pump:
    """Readers for the mappings that Lambda lists, from ``start`` to ``close``."""

    def __init__(self, clients: Clients, checkpoints: Checkpoints) -> None:
        self._clients = clients
        self._checkpoints = checkpoints
        self._readers: dict[Mapping, Reader] = {}
        self._lock = threading.Lock()
        self._end = threading.Event()

    def start(self) -> None:
        """Read for the mappings that exist now, and for new ones."""
        self.look()
        threading.Thread(target=self._run, daemon=True).start()

    def look(self) -> None:
        """Start and stop readers, so that there is one for each enabled mapping."""
        with self._lock:
            wanted = set(self._mappings())
            gone = [self._readers.pop(mapping) for mapping in set(self._readers) - wanted]
            for reader in gone:
                reader.stop()
            for reader in gone:
                reader.join()  # one of a mapping that has changed begins where this one ends
            for mapping in wanted - set(self._readers):
                reader = Reader(mapping, self._clients, self._checkpoints)
                reader.start()
                self._readers[mapping] = reader

    def ring(self) -> None:
        """Wake the readers: something was written."""
        for reader in list(self._readers.values()):
            reader.ring()

    def tallies(self) -> list[dict[str, Any]]:
        """Return the counts of each reader, as JSON has them."""
        return [
            {
                "table": mapping.table,
                "function": mapping.function_arn.rpartition(":")[2],
                "records": reader.tally.records,
                "batches": reader.tally.batches,
                "given_up": reader.tally.given_up,
                "failure": reader.tally.failure,
            }
            for mapping, reader in list(self._readers.items())
        ]

    def close(self) -> None:
        """Stop every reader. The next one begins with what it has not finished."""
        self._end.set()
        readers = list(self._readers.values())
        for reader in readers:
            reader.stop()
        for reader in readers:
            reader.join(STOP_SECONDS)

    def _run(self) -> None:
        while not self._end.wait(LOOK_SECONDS):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001  the next look may find what this one did not
                logger.warning("event source mappings are not listed: %s", error)

    def _mappings(self) -> list[Mapping]:
        pages = self._clients.functions.get_paginator("list_event_source_mappings").paginate()
        found: list[Attributes[str, Any]] = [each for page in pages for each in page["EventSourceMappings"]]
        return [
            Mapping.from_configuration(each)
            for each in found
            if ":dynamodb:" in each["EventSourceArn"] and each.get("State") != "Disabled"
        ]
