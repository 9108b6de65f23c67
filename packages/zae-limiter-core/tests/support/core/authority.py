"""A certificate of an authority made up on the spot, by the command ``openssl``, for servers of tests and benchmarks.

Lives here: keys and certificates that live for a day. Never: a server.
"""

import shutil
import ssl
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

HOST = "localhost"
SETTINGS = f"""
[req]
distinguished_name = name
prompt = no
[name]
CN = zae-limiter
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = DNS:{HOST}
"""
NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True)
class Authority:
    """Paths of PEM files: ``bundle`` is for ``AWS_CA_BUNDLE``; the certificates are for ``localhost`` alone."""

    bundle: Path
    certificate: Path
    expired: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        """What a server needs."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context

    def with_expired(self) -> "Authority":
        """The same authority, whose certificate has expired."""
        return replace(self, certificate=self.expired)


def openssl_is_here() -> bool:
    """Whether ``make_authority`` works here."""
    return shutil.which("openssl") is not None


def make_authority(folder: Path) -> Authority:
    """A new authority, a certificate by it, and one that has expired, in a folder."""
    settings, bundle, bundle_key = folder / "openssl.cnf", folder / "authority.pem", folder / "authority.key"
    request, key = folder / "server.csr", folder / "server.key"
    certificate, expired = folder / "server.pem", folder / "expired.pem"
    settings.write_text(SETTINGS)
    common = ("req", "-config", settings, *NEW_KEY)
    _openssl(*common, "-x509", "-extensions", "authority", "-days", "2", "-keyout", bundle_key, "-out", bundle)
    _openssl(*common, "-new", "-subj", f"/CN={HOST}", "-keyout", key, "-out", request)
    by = ("-CA", bundle, "-CAkey", bundle_key, "-CAcreateserial", "-extfile", settings, "-extensions", "server")
    for days, path in (("1", certificate), ("-1", expired)):
        _openssl("x509", "-req", "-in", request, *by, "-days", days, "-out", path)
    return Authority(bundle, certificate, expired, key)


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
