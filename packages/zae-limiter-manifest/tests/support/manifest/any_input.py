"""Input that is not a manifest: pieces of YAML, and plain values of the wrong form. Never an assertion."""

from hypothesis import strategies as st

TOKENS = [
    *"\n:,?-&*!|>'\"%@`#{}[]=~_ \t\r\x85\u2028é0179.",
    *("\n  ", "\n    ", ": ", "- ", "? ", "&a ", "*a", "---\n", "...\n", "%YAML 1.1\n", "%TAG ! x\n", "<<"),
    *("!!str ", "!!int ", "!!set ", "!!binary ", "!!timestamp ", "!!python/object:x ", "!<x> ", "! "),
    *(
        "namespace: a",
        "system",
        "resources",
        "entities",
        "limits",
        "capacity",
        "burst",
        "on_unavailable",
        "shadow",
        "prefetch",
    ),
    *(
        "rpm",
        "_default_",
        "{capacity: 5}",
        "shadow: true",
        "prefetch: 0.5",
        "{a: &a [*a]}",
        "null",
        "true",
        "yes",
        "1e400",
        ".nan",
        ".inf",
    ),
    *("0x", "0b_", "0o7", "1:60:1", "2024-13-01", "0001-01-01 00:00:00 +23:59", "9" * 5000, "0x" + "f" * 5000),
]
KEYS = ["namespace", "system", "resources", "limits", "capacity", "shadow", "prefetch", "rpm", 1, None, 1.5, ("a",)]

huge = st.builds(lambda: 10**9999)
scalars = st.none() | st.booleans() | st.integers() | huge | st.floats() | st.text(max_size=5) | st.binary(max_size=2)
plain_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=12,
)
