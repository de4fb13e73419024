"""IP addresses and networks, of both versions, as people write them."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
# IPv4 addresses as a socket of both versions tells them.
MAPPED_BITS = 96


def as_network(text: str) -> Network:
    """`10.0.0.0/8`, `2001:db8::/32`, or one address. Raises ValueError, bits beside the mask
    included: whoever wrote them meant something else.
    """
    network = ip_network(text.strip())
    if isinstance(network, IPv6Network) and network.prefixlen >= MAPPED_BITS:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            return IPv4Network((mapped, network.prefixlen - MAPPED_BITS))
    return network


def as_address(text: str) -> Address | None:
    """None for what is no address. An IPv4 address written as an IPv6 one is the IPv4 address."""
    try:
        address = ip_address(text.strip())
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def contains(networks: Iterable[Network], address: Address | None) -> bool:
    """Whether the address is in one of them; an unknown one is in none."""
    return address is not None and any(address in network for network in networks)
