"""Refuse whole requests, and answer failed ones. ``writing`` reports a single item that failed."""

from zae_limiter import ZAELimiterError
from zae_limiter_manifest import Answer, Failure, FormatError, ManifestError, manifest_failures


class Refused(Exception):
    """The request was refused, and nothing was done; ``code`` is for programs, the text for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What an answer says of it."""
        return (Failure(self.code, self.message),)

    def __str__(self) -> str:
        return self.message


def failed_answer(error: Exception, namespace: str | None) -> Answer:
    """Return the answer to a failed request; ``namespace`` is the request's, if it names one."""
    return Answer.failed(_failures(error), namespace=namespace)


def _failures(error: Exception) -> tuple[Failure, ...]:
    match error:
        case Refused():
            return error.failures
        case ManifestError():
            return manifest_failures(error)
        case FormatError():
            return (Failure("bad_request", str(error)),)
        case ZAELimiterError():
            return (Failure("table_failed", str(error)),)
    return (Failure("internal", f"{type(error).__name__}: {error}; see the Lambda's log"),)
