"""Reservation of ports for the servers of a stack."""

import socket
from contextlib import closing

from sandbox.ports import HOST, is_free, reserve_ports
from tests.support.ports import free_ports


def test_remembered_ports_are_reserved_until_released() -> None:
    remembered = free_ports("server", "web", "database")
    with closing(reserve_ports(["web", "database"], first=14_300, remembered=remembered)) as reservation:
        assert reservation.ports == remembered
        reservation.release("web")
        assert is_free(remembered["web"])
        assert not is_free(remembered["database"])
    assert is_free(remembered["database"])


def test_remembered_port_that_is_taken_is_replaced() -> None:
    remembered = free_ports("server", "web", "database")
    with (
        socket.create_server((HOST, remembered["web"])),
        closing(reserve_ports(["web", "database"], first=14_300, remembered=remembered)) as reservation,
    ):
        assert reservation.ports["database"] == remembered["database"]
        assert reservation.ports["web"] not in remembered.values()
