"""The distribution ``zae-limiter``: another project with the same import name and the same command."""

from importlib.metadata import PackageNotFoundError, version


def problem() -> str | None:
    """Return what is wrong if both projects are in this environment, and what to do; else ``None``.

    It imports nothing of core: the other project's files may stand in its place.
    """
    try:
        found = version("zae-limiter")
    except PackageNotFoundError:
        return None
    return (
        f"the distribution zae-limiter {found} is another project, installed over the same files as zae-limiter-core: "
        "which of the two runs is chance. "
        "`pip uninstall zae-limiter zae-limiter-core zae-limiter-cli`, then install one"
    )
