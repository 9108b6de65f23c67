"""Read a local stack's logs: of all functions together, by time, and as they grow."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

POLL_SECONDS: Final = 0.2


class Line(NamedTuple):
    """A line of a log; its time sorts as text."""

    time: str
    source: str
    text: str

    def shown(self) -> list[str]:
        """Return the text for people: of a JSON object with a message the level, the message and the other fields, and
        below these an error, line by line; any other text as it is.
        """
        found = _object(self.text)
        if not isinstance(found.get("message"), str):
            return [self.text]
        level, message = found.pop("level", ""), found.pop("message")
        error = str(found.pop("exception", "") or found.pop("places", ""))
        found.pop("logger", None)
        fields = " ".join(f"{name}={_value(value)}" for name, value in found.items())
        return [" ".join(filter(None, (str(level), message, fields))), *error.splitlines()]


def _object(text: str) -> dict[str, Any]:
    """Return the JSON object of a text; an empty one for any other text."""
    try:
        found = json.loads(text) if text.startswith("{") else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _value(value: object) -> str:
    return value if isinstance(value, str) and value and " " not in value else json.dumps(value, ensure_ascii=False)


@dataclass(slots=True)
class Logs:
    """The logs in a directory; ``only`` names the one function to read, by its name or the end of it."""

    directory: Path
    only: str | None = None
    _offsets: dict[Path, int] = field(default_factory=dict)

    def new(self) -> list[Line]:
        """Return the lines that came since the last call, in order of time."""
        return sorted((line for path in self._paths() for line in self._read(path)), key=lambda line: line.time)

    def follow(self, alive: Callable[[], bool]) -> Iterator[Line]:
        """Yield lines as they come, until nothing is ``alive`` that could write more."""
        last_round = False
        while not last_round:
            last_round = not alive()
            yield from self.new()
            if not last_round:
                time.sleep(POLL_SECONDS)

    def sources(self) -> list[str]:
        """Return the names of the logs among those that are read."""
        return [path.stem for path in self._paths()]

    def _paths(self) -> list[Path]:
        return [path for path in sorted(self.directory.glob("*.log")) if self._is_asked_for(path.stem)]

    def _is_asked_for(self, source: str) -> bool:
        return self.only is None or source == self.only or source.endswith(f"-{self.only}")

    def _read(self, path: Path) -> Iterator[Line]:
        with path.open("rb") as file:
            file.seek(self._offsets.get(path, 0))
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]  # the rest of a line is still to be written
        self._offsets[path] = self._offsets.get(path, 0) + len(whole)
        for line in whole.decode(errors="replace").splitlines():
            moment, _, text = line.partition(" ")
            yield Line(moment, path.stem, text)
