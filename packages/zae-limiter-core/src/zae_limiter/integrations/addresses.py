"""Find the client of a request, also behind proxies: an address that it cannot choose, as the id of an entity.

A header can be forged. A proxy appends the address of its own peer on the right of what it has received, so only
the entries on the right were written by trusted proxies. Therefore the chain is read from its right end, beginning with
the peer of the connection: trusted addresses are skipped, and the first other one is the client. Whatever stands left
of it is the client's own text, and is not even parsed. An entry that is not an address (``unknown``, ``_hidden``,
garbage) ends the walk, too: then the client is known only as the trusted proxy that wrote the entry, and shares the
bucket of that proxy. If two header fields contradict each other, one of them is the client's, so that the peer counts.

An IPv6 address is cut to its prefix, because a client usually has a whole ``/64``; ``::ffff:10.0.0.1`` is
``10.0.0.1``. Frameworks: ``client_address`` of ``asgi``, ``fastapi``, ``flask`` and ``django``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final, TypedDict

from ..exceptions import ValidationError

FIELDS: Final = ("forwarded", "x-forwarded-for")
UNKNOWN: Final = "unknown"  # the id of a client without an address, such as behind an unnamed Unix socket
UNIX: Final = "unix"  # among the trusted proxies: a peer without an address, behind a Unix socket

_Address = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network
_MAPPED: Final = IPv6Network("::ffff:0:0/96")


class AddressOptions(TypedDict, total=False):
    """The options of ``client_address``.

    ``trusted_proxies``: the addresses and networks of proxies that append to the header, like ``10.0.0.0/8``, and
    ``unix`` for one that connects by a Unix socket; without any, no header counts. ``v6_prefix``: the bits of an IPv6
    address that tell clients apart. ``fields``: the header fields that the proxies write, by default both.
    """

    trusted_proxies: Iterable[str]
    v6_prefix: int
    fields: Sequence[str]


class Proxies:
    """The proxies in front of an application. Raises ``ValidationError``."""

    def __init__(
        self, trusted_proxies: Iterable[str] = (), v6_prefix: int = 64, fields: Sequence[str] = FIELDS
    ) -> None:
        if isinstance(trusted_proxies, str) or not isinstance(trusted_proxies, Iterable):
            raise ValidationError("trusted_proxies", trusted_proxies, "must be a list of addresses and networks")
        if not (isinstance(v6_prefix, int) and 1 <= v6_prefix <= 128) or v6_prefix is True:
            raise ValidationError("v6_prefix", v6_prefix, "must be 1 to 128 bits")
        if isinstance(fields, str) or not fields or not {*fields} <= {*FIELDS}:
            raise ValidationError("fields", fields, f"must be a list of {' and '.join(FIELDS)}")
        given = [*trusted_proxies]
        self.fields = tuple(fields)
        self._unix = UNIX in given
        self._networks = [_network(each) for each in given if each != UNIX]
        self._v6_prefix = v6_prefix

    def client(self, peer: str | None, header: Mapping[str, Sequence[str]]) -> str:
        """Return the id of the client: ``peer`` is the other end of the connection, ``header`` has the lines of each
        of ``fields`` in their order.
        """
        hop = _address(peer or "")
        if not self._trusts(hop, unnamed=not peer):
            return self._id(hop)
        found = {self._walk(hop, name, ",".join(lines)) for name, lines in header.items() if lines}
        return self._id(found.pop() if len(found) == 1 else hop)

    def of_environ(self, environ: Mapping[str, Any]) -> str:
        """Return the id of the client of a WSGI request."""
        found = {name: environ.get(f"HTTP_{name.upper().replace('-', '_')}") for name in self.fields}
        return self.client(environ.get("REMOTE_ADDR"), {name: [text] for name, text in found.items() if text})

    def _trusts(self, hop: _Address | None, *, unnamed: bool = False) -> bool:
        return (unnamed and self._unix) if hop is None else any(hop in each for each in self._networks)

    def _walk(self, client: _Address | None, field: str, text: str) -> _Address | None:
        """Return the first address from the right that no trusted proxy has, or the one behind an unreadable entry."""
        for entry in filter(None, _from_right(text, ",")):
            hop = _node(_for(entry) if field == "forwarded" else entry)
            if hop is None:
                break
            client = hop
            if not self._trusts(hop):
                break
        return client

    def _id(self, client: _Address | None) -> str:
        if client is None:
            return UNKNOWN
        if isinstance(client, IPv4Address) or self._v6_prefix == 128:
            return str(client)
        return str(IPv6Network((int(client), self._v6_prefix), strict=False))


def _network(given: object) -> _Network:
    problem = "must be an address or a network, like 10.0.0.0/8"
    try:
        if not isinstance(given, str):
            raise ValueError
        network = ip_network(given)
    except ValueError:
        raise ValidationError("trusted_proxies", given, problem) from None
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        network = IPv4Network((int(network.network_address) & 0xFFFFFFFF, network.prefixlen - _MAPPED.prefixlen))
    if network.prefixlen == 0:
        raise ValidationError("trusted_proxies", given, "trusts everybody: each client could choose its address")
    return network


def _from_right(text: str, separator: str) -> Iterator[str]:
    """Yield the parts of a list, the last one first, with separators in quoted strings left alone.

    From the right, so that a quote that a client has left open cannot swallow what a proxy has appended.
    """
    end, quoted = len(text), False
    for at in range(len(text) - 1, -1, -1):
        if text[at] == '"':
            before = at
            while before and text[before - 1] == "\\":
                before -= 1
            quoted = not quoted or (at - before) % 2 == 1  # an odd number of backslashes escapes the quote
        elif text[at] == separator and not quoted:
            yield text[at + 1 : end].strip()
            end = at
    yield text[:end].strip()


def _for(element: str) -> str:
    """Return the node of an element of ``Forwarded`` (RFC 7239); empty if it names none, or more than one."""
    pairs = (part.partition("=") for part in _from_right(element, ";"))
    nodes = [value.strip() for name, _, value in pairs if name.strip().lower() == "for"]
    if len(nodes) != 1:
        return ""
    (node,) = nodes
    quoted = len(node) > 1 and node[0] == node[-1] == '"'
    return node[1:-1].replace("\\", "") if quoted else node


def _node(text: str) -> _Address | None:
    """Return the address of a node, whose port may follow; an IPv6 address with a port is in brackets."""
    host, port = text, ""
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        if not bracket or ":" not in host:
            return None
    elif text.count(":") == 1:
        host, port = text[: text.index(":")], text[text.index(":") :]
    digits = port[1:]
    known = port == "" or (port[0] == ":" and digits.isascii() and (digits.isdigit() or digits[:1] == "_"))
    return _address(host) if known else None


def _address(text: str) -> _Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        return address.ipv4_mapped or IPv6Address(int(address))  # without the zone of %eth0
    return address
