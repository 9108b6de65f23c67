"""What the tests of all packages share: what a session may skip, and what the AWS SDK has read of its services."""

import functools

pytest_plugins = ["skips"]


def pytest_configure() -> None:
    """Let all sessions of this process share what they read: most of what a client costs in the making is that."""
    try:
        import botocore.session
    except ImportError:
        return  # a package that is tested without the SDK
    botocore.session.create_loader = functools.cache(botocore.session.create_loader)
