"""A warning of the distribution ``zae-limiter``: another project, whose files have the paths of this one's."""

import warnings


def warn() -> None:
    """Warn on import that the other project is installed in the same folder."""
    warnings.warn(
        "the distribution zae-limiter is another project, installed over the same files as zae-limiter-core: "
        "which of the two runs is chance. `pip uninstall zae-limiter zae-limiter-core`, then install one",
        RuntimeWarning,
        stacklevel=3,
    )
