"""Egress rules: parsing them, and matching them against an address. Pure.

Every decision is about the *address* that will be connected to, so that no spelling of it (decimal, octal,
hexadecimal, IPv4 inside IPv6, a name that resolves to it) makes a difference.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from guiagent.errors import UsageError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# https://www.iana.org/assignments/iana-ipv4-special-registry : every block that is not public internet, and
# multicast, and the metadata service of one cloud, which has a public address.
_SPECIAL_V4 = tuple(
    map(
        IPv4Network,
        ("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
         "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
         "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32"),
    )
)  # fmt: skip
# Of IPv6 only global unicast is public, except blocks that embed another address (Teredo, 6to4) or are for
# documentation: https://www.iana.org/assignments/iana-ipv6-special-registry
_UNICAST_V6 = IPv6Network("2000::/3")
_SPECIAL_V6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
_NAT64 = IPv6Network("64:ff9b::/96")

_LABEL = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
_NAME = re.compile(rf"(?P<subdomains>\*\.)?(?P<name>{_LABEL}(?:\.{_LABEL})*)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_SYNTAX = 'a rule is a host, *.host, host:port, an address, address:port, a CIDR block, or "public"'


@dataclass(frozen=True, slots=True)
class Public:
    """Every address of the public internet."""


@dataclass(frozen=True, slots=True)
class Name:
    """A host name, or (`subdomains`) all names below it; reaches public addresses only."""

    host: str
    subdomains: bool = False
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """A block of addresses, public or not, under any host name."""

    network: Network
    port: int | None = None


Rule = Public | Name | Block


def parse(rules: Iterable[str]) -> tuple[Rule, ...]:
    """Parse rules. Raises UsageError for an invalid one.

    A name rule does not open private addresses, since whoever runs the name's DNS could point it anywhere;
    an address rule has no name resolved. To reach `intranet.corp` at 10.1.2.3 allow both.
    """
    return tuple(map(_parse, rules))


def permits(rules: Sequence[Rule], host: str, port: int, address: Address, *, own: bool = False) -> bool:
    """True if some rule lets a device connect to `address`, which it asked for as `host` and `port`.

    `own`: the address belongs to this machine, so it counts as private even if it looks public.
    """
    name, address = canonical(host), plain(address)
    public = is_public(address) and not own
    return any(_matches(rule, name, port, address, public) for rule in rules)


def may_permit(rules: Sequence[Rule], host: str, port: int) -> bool:
    """False if `host` needs no resolving, or must not be: a query to a name server carries data out, too.

    A name is resolved only for "public", or for a rule that names it. Rules of addresses permit an address
    that is written as one, and `localhost`, which no name server is asked for (RFC 6761).
    """
    name = canonical(host)
    literal = name == "localhost" or _address(name) is not None
    return any(_may_match(rule, name, port, literal) for rule in rules)


def is_public(address: Address) -> bool:
    """True for an address of the public internet: not private, local, special or multicast."""
    address = plain(address)
    if isinstance(address, IPv4Address):
        return not any(address in block for block in _SPECIAL_V4)
    return address in _UNICAST_V6 and not any(address in block for block in _SPECIAL_V6)


def plain(address: Address) -> Address:
    """The IPv4 address inside an IPv6 address (mapped, or under NAT64's prefix), else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else address


def canonical(host: str) -> str:
    """A host name in the form of rules: ASCII, lower case, no final dot; "" if it cannot be encoded."""
    host = host.strip("[]")
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            return ""  # matches no rule
    return host.lower().removesuffix(".")


def _matches(rule: Rule, name: str, port: int, address: Address, public: bool) -> bool:
    match rule:
        case Public():
            return public
        case Name():
            return public and _names(rule, name) and rule.port in (None, port)
        case Block():
            return address in rule.network and rule.port in (None, port)


def _may_match(rule: Rule, name: str, port: int, literal: bool) -> bool:
    match rule:
        case Public():
            return True
        case Name():
            return _names(rule, name) and rule.port in (None, port)
        case Block():
            return literal and rule.port in (None, port)


def _names(rule: Name, name: str) -> bool:
    return name.endswith(f".{rule.host}") if rule.subdomains else name == rule.host


def _parse(text: str) -> Rule:
    if text == "public":
        return Public()
    if "/" in text:
        try:
            return Block(ip_network(text))
        except ValueError as error:
            raise UsageError(f"egress: {text[:80]!r} is no CIDR block: {error}") from None
    if (address := _address(text)) is not None:
        return Block(ip_network(address))
    place, colon, digits = text.rpartition(":")
    port = _port(text, digits) if colon else None
    place = place if colon else text
    if (address := _address(place)) is not None:
        return Block(ip_network(address), port)
    wild = "*." if place.startswith("*.") else ""
    name = _NAME.fullmatch(wild + canonical(place.removeprefix(wild)))
    if name is None or _NUMBER.fullmatch(name["name"].rpartition(".")[2]):
        raise UsageError(f"egress: {text[:80]!r} is no rule; {_SYNTAX}")
    return Name(name["name"], subdomains=bool(wild), port=port)


def _address(text: str) -> Address | None:
    try:
        return plain(ip_address(text[1:-1] if text.startswith("[") and text.endswith("]") else text))
    except ValueError:
        return None


def _port(text: str, digits: str) -> int:
    if not (re.fullmatch("[0-9]{1,5}", digits) and 0 < int(digits) < 65536):
        raise UsageError(f"egress: {text[:80]!r} has no port from 1 to 65535 after its colon")
    return int(digits)
