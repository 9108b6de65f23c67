"""The progress of each reader of a stream, in a file beside the kept data."""

import json
from collections.abc import Mapping
from pathlib import Path
from threading import Lock


class Checkpoints:
    """Sequence numbers by shard, for each reader; without a file they last as long as this process."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = Lock()
        self._of: dict[str, dict[str, str]] = {}
        if path is not None and path.exists():
            self._of = json.loads(path.read_text(encoding="utf-8"))

    def load(self, reader: str) -> dict[str, str]:
        """Return how far a reader has come."""
        with self._lock:
            return dict(self._of.get(reader, {}))

    def save(self, reader: str, positions: Mapping[str, str]) -> None:
        """Store how far a reader has come."""
        with self._lock:
            self._of[reader] = dict(positions)
            if self._path is not None:
                scratch = self._path.with_suffix(".new")
                scratch.write_text(json.dumps(self._of), encoding="utf-8")
                scratch.replace(self._path)
