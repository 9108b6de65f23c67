"""The access key of one local stack: only a caller that has it may ask the stack."""

import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"  # emulators take letters and digits only
_ID_LENGTH: Final = 26  # 130 bits


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access key as AWS has them: its id and its secret."""

    access_key_id: str
    secret_access_key: str = field(repr=False)

    @classmethod
    def random(cls) -> "Credentials":
        """Return an access key that cannot be guessed."""
        return cls(f"LOCAL{random_id()}", secrets.token_urlsafe(30))

    def variables(self) -> dict[str, str]:
        """Return the environment variables by which SDKs find the key."""
        return {"AWS_ACCESS_KEY_ID": self.access_key_id, "AWS_SECRET_ACCESS_KEY": self.secret_access_key}


def random_id() -> str:
    """Return letters and digits that cannot be guessed."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_ID_LENGTH))


def kept_id(file: Path) -> str:
    """Return the random id in a file that only the user can read; create the file if it is missing."""
    if not file.exists():
        write_private(file, random_id())
    return file.read_text(encoding="ascii")


def write_private(file: Path, content: str) -> None:
    """Write a file that only the user can read, as a whole."""
    scratch = file.with_suffix(".new")
    scratch.unlink(missing_ok=True)  # an old one might be open to others
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as output:
        output.write(content)
    scratch.replace(file)


def authorization(access_key_id: str, *, region: str = "us-east-1", service: str = "dynamodb") -> str:
    """Return the header of a signed request for a receiver that reads only its scope and its key."""
    scope = f"{access_key_id}/20200101/{region}/{service}/aws4_request"
    return f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"
