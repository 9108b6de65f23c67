"""Why a request is refused as a whole: a code for programs, and what to tell people.

Lives here: the refusals. Never: one item that could not be written, which is part of an answer.
"""

from zae_limiter_manifest import Answer, Failure


class Refused(Exception):
    """Nothing was done; ``code`` says why to programs, the text to people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message

    def answer(self) -> Answer:
        """The answer that says so."""
        return Answer.failed([Failure(self.code, self.message)])
