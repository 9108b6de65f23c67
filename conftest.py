"""What the tests of all packages share: what a session may skip, Ctrl-C, no width of somebody's terminal, and what the
SDK has read of its services; and how long a case of hypothesis takes says nothing on a busy machine.
"""

import functools
import os
import signal

pytest_plugins = ["skips", "once"]


def pytest_configure() -> None:
    """Let Ctrl-C interrupt, which a shell turns off in what it starts in the background. Forget how wide the terminal
    is in which the tests run: output is wrapped by it. Let all sessions of this process share what they read: most of
    what a client costs in the making is that.
    """
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _let_hypothesis_take_its_time()
    try:
        import botocore.session
    except ImportError:
        return  # a package that is tested without the SDK
    botocore.session.create_loader = functools.cache(botocore.session.create_loader)


def _let_hypothesis_take_its_time() -> None:
    try:
        from hypothesis import HealthCheck, settings
    except ImportError:
        return  # a package that is tested without it
    settings.register_profile("zae", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("zae")
