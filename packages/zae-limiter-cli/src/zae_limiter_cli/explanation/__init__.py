"""Show why an acquire is refused, and what to do next."""
