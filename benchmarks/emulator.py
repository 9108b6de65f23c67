"""The emulator that benchmarks use.

Lives here: one of the tests' own, or the reason why it is not here. Never: a measurement.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from .report import NotHere


def dynoxide(stack: ExitStack) -> str:
    """Where it answers, for as long as the stack is open. Raises ``NotHere``."""
    from support.integration import emulators

    with _reason():
        return stack.enter_context(emulators.running(emulators.dynoxide()))


def dynoxide_binary() -> str:
    """The program itself. Raises ``NotHere``."""
    from support.integration import emulators

    with _reason():
        return emulators.dynoxide()(0)[0]


@contextmanager
def _reason() -> Iterator[None]:
    from support.integration.fetch import Unavailable

    try:
        yield
    except Unavailable as reason:
        raise NotHere(str(reason)) from reason
