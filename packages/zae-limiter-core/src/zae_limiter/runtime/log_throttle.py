"""Log one line a minute for what may happen with every call, and once what may be noticed with every client."""

from logging import Logger

A_LINE_MS = 60_000
_said: set[str] = set()


def warn_once(log: Logger, text: str, *values: object) -> None:
    """Log a warning, if this process has not logged the same before."""
    if (line := text % values) not in _said:
        _said.add(line)
        log.warning(text, *values)


class LogThrottle:
    """Counts an event that is worth one log line a minute."""

    def __init__(self) -> None:
        self._logged_ms: int | None = None
        self._skipped = 0

    def count(self, now_ms: int) -> int | None:
        """Count one event. If a line is due, return how many were not logged since the last line, else ``None``."""
        if self._logged_ms is not None and 0 <= now_ms - self._logged_ms < A_LINE_MS:
            self._skipped += 1
            return None
        since, self._skipped, self._logged_ms = self._skipped, 0, now_ms
        return since

    def ending(self, now_ms: int) -> str | None:
        """Count one event. If a line is due, return its ending: how many were not logged since the last one."""
        skipped = self.count(now_ms)
        return None if skipped is None else f"; {skipped} more since the last line" if skipped else ""
