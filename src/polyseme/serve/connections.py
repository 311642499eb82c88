"""How many connections there may be, in all and from one address, and which of them goes when there is no room.

A connection that waits for its client (nothing asked yet, half a request sent, an answer not read) can be closed to
make room; one that waits for an answer cannot. So connections that do nothing never keep anybody else out.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from typing import Protocol

OF_ONE_CLIENT = 300
REFUSED = 100  # connections beyond that, which are told that the server is busy; the next are closed without a word


class Connection(Protocol):
    """What is known of one connection."""

    address: str
    last_active: float

    def waits_for_client(self) -> bool: ...

    def abort(self) -> None: ...


class Connections:
    """The open connections of a server, by the address of the client."""

    def __init__(self, *, in_all: int = 1000, of_one_client: int = OF_ONE_CLIENT) -> None:
        self.in_all, self.of_one_client = in_all, of_one_client
        self._by_address: defaultdict[str, set[Connection]] = defaultdict(set)
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def admit(self, connection: Connection) -> bool:
        """Count a new connection; False if it has to be refused, since all others are at work."""
        own = self._by_address[connection.address]
        room = True
        if len(own) >= self.of_one_client:
            room = self._close_one_of(own)
        elif self._n >= self.in_all:
            room = self._close_one_of(max(self._by_address.values(), key=len))
        own = self._by_address[connection.address]  # closing the last one of an address forgets the address
        own.add(connection)
        self._n += 1
        if not room and self._n > self.in_all + REFUSED:
            connection.abort()
        return room

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        own = self._by_address.get(connection.address, set())
        if connection in own:
            own.remove(connection)
            self._n -= 1
            if not own:
                del self._by_address[connection.address]

    def _close_one_of(self, connections: set[Connection]) -> bool:
        """Close the one that has been waiting for its client longest; False if none does."""
        waiting = [one for one in connections if one.waits_for_client()]
        if not waiting:
            return False
        oldest = min(waiting, key=lambda one: one.last_active)
        self.remove(oldest)
        oldest.abort()
        return True


def client_address(client: tuple[str, int] | None) -> str:
    """What tells clients apart: the IPv4 address, or the network of an IPv6 address, which one client has whole."""
    if client is None:
        return ""
    try:
        address = ipaddress.ip_address(client[0].partition("%")[0])
    except ValueError:
        return client[0]
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))
