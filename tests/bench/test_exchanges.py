"""What a rack's phones cannot exchange is known before a launch is spent on it."""

from __future__ import annotations

from ipaddress import IPv4Network
from types import SimpleNamespace
from typing import Any

import pytest

from fleetctl.bench.collectives import METHODS, possible_methods
from fleetctl.bench.exchanges import require_fit, switches_of
from fleetctl.rack import InputError, Network, Phone, Rack
from trainer.formats import Exchange

PHONES = ("phone001", "phone002", "phone003")


def rack(*switches: str | None) -> Rack:
    """One phone on each of these; None: the rack file does not say where it is."""
    phones = {
        name: Phone(name, f"10.0.0.{number}", switch=switch)
        for number, (name, switch) in enumerate(zip(PHONES, switches, strict=True), 11)
    }
    return Rack("r", Network(IPv4Network("10.0.0.0/24"), "ethernet"), phones)


def session(rack: Rack, remarks: list[str]) -> Any:
    room = SimpleNamespace(rack=rack, remark=remarks.append)
    return SimpleNamespace(room=room, phones=PHONES)


def test_a_rack_that_names_no_switches_is_measured_without_hierarchical() -> None:
    remarks: list[str] = []
    methods = possible_methods(session(rack(None, None, None), remarks), None, 3)
    assert methods == tuple(method for method in METHODS if method != "hierarchical")
    (remark,) = remarks
    assert remark.startswith("hierarchical is left out: ")
    assert "phone001, phone002, phone003; say it in the rack file" in remark


def test_where_every_phone_has_a_switch_all_methods_are_measured() -> None:
    remarks: list[str] = []
    assert possible_methods(session(rack("sw1", "sw1", "sw2"), remarks), None, 3) == METHODS
    assert possible_methods(session(rack("sw1", "sw1", None), remarks), None, 2) == METHODS
    assert not remarks


def test_hierarchical_that_was_asked_for_is_refused_where_a_switch_is_not_known() -> None:
    with pytest.raises(InputError, match="none is known for phone003;"):
        possible_methods(session(rack("sw1", "sw1", None), []), ["ring", "hierarchical"], 3)
    assert possible_methods(session(rack(None, None, None), []), ["gloo"], 3) == ("gloo",)


@pytest.mark.parametrize("reduce", ["mpi", "gloo"])
def test_a_codec_is_refused_that_the_reduce_would_not_use(reduce: Any) -> None:
    with pytest.raises(InputError, match=f"codec half and exchange.reduce {reduce}"):
        require_fit(Exchange(reduce=reduce, codec="half"), rack("a", "a", "a"), PHONES)
    require_fit(Exchange(reduce=reduce), rack("a", "a", "a"), PHONES)
    require_fit(Exchange(codec="half"), rack(None, None, None), PHONES)


def test_a_hierarchical_bench_needs_every_switch() -> None:
    with pytest.raises(InputError, match="none is known for phone002;"):
        require_fit(Exchange(reduce="hierarchical"), rack("a", None, "b"), PHONES)
    require_fit(Exchange(reduce="hierarchical"), rack("a", None, "b"), PHONES[:1])
    assert switches_of(rack("a", None, "b"), PHONES) == ("a", "", "b")
