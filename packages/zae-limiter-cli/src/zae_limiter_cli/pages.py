"""Where the pages of the docs are, for messages that send a reader there: an alarm is read where no checkout is."""

from typing import Final

DOCS: Final = "https://github.com/zae-limiter/zae-limiter/blob/main/docs"
RUNBOOKS: Final = f"{DOCS}/operate/runbooks"
