"""Limits of which a larger capacity gives nothing at once."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zae_limiter import Limit


def gains_at_once(limit: "Limit") -> bool:
    """Return whether a larger capacity admits more now. A window under way keeps what it has, and so does a total:
    only a credit adds to them.
    """
    return limit.kind in ("token_bucket", "concurrent")
