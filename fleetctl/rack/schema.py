"""What a rack file and a lock file may say, as pydantic models. Imported only to read one."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ByteSize, ConfigDict, Field, model_validator

from fleetctl.rack import feeding, switching
from fleetctl.rack.errors import RackError
from fleetctl.rack.macs import normal_mac
from fleetctl.rack.nodesets import expand, parse_ranges

VERSION = 1
"""Newest version of the rack file and the lock file that this program reads."""

RESERVED_NAMES = frozenset(
    {
        "all",
        "ungrouped",
        "phones",
        "empty",
        "left",
        "waiting",
        "services",
        "controller",
        "monitoring",
        "localhost",
    }
    | {"ready", "busy", "draining", "drained", "suspect", "lost", "needs-hands"}
    | {"bare", "upgrade_canary", "upgrade_rest", "upgrade_none"}
)
"""Names of hosts and groups that every rack has; no phone, switch or group may take them."""


def _slug(pattern: str, most: int, kind: str) -> Any:
    def check(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if not re.fullmatch(pattern, value) or len(value) > most:
            raise ValueError(
                f"{value!r} is no {kind}; use up to {most} of {pattern_in_words}, a letter first"
            )
        if value in RESERVED_NAMES:
            raise ValueError(f"`{value}` is a name that every rack has; choose another")
        return value

    pattern_in_words = "a-z, 0-9 and _" if "_" in pattern else "a-z, 0-9 and -"
    return BeforeValidator(check)


def _label(value: Any) -> Any:
    """Text that ends up in descriptions of switch ports, whose command lines trip over these."""
    if isinstance(value, str):
        traps = {
            "?": "a question mark",
            "\t": "a tab",
            '"': "a quote",
            "'": "a quote",
            "{": "a brace",
        }
        for sign, word in traps.items():
            if sign in value:
                raise ValueError(
                    f"{value!r} holds {word}; leave it out, switches and templates choke on it"
                )
        if not value.isprintable() or value != value.strip() or not 0 < len(value) <= 60:
            raise ValueError(
                f"{value!r} has blanks around it, odd characters or no length from 1 to 60; "
                "write plain words"
            )
    return value


def _version(value: Any) -> Any:
    if str(value).isdigit() and int(value) > VERSION:
        raise ValueError(
            f"version {value} is newer than {VERSION}, the newest that this fleetctl knows; "
            "update phonerack"
        )
    return value


def _ranges(value: Any) -> Any:
    return _or_value_error(parse_ranges, value) if isinstance(value, str) else value


def _names(value: Any) -> Any:
    sets = [value] if isinstance(value, str) else value
    if not isinstance(sets, list) or not all(isinstance(item, str) for item in sets):
        return value
    return [name for item in sets for name in _or_value_error(expand, item)]


def _addresses(value: Any) -> Any:
    """`10.0.0.11-56`, `10.0.0.11-10.0.0.56`, one address, or a list of these, as addresses."""
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(item, str) for item in parts):
        return value
    return [address for part in parts for address in _address_range(part)]


def _address_range(text: str) -> list[IPv4Address]:
    first, _, last = (part.strip() for part in text.partition("-"))
    if last and "." not in last:
        last = f"{first.rpartition('.')[0]}.{last}"
    try:
        low, high = IPv4Address(first), IPv4Address(last or first)
    except ValueError:
        raise ValueError(
            f"`{text}` is no address; write one such as 10.138.0.11, or a range 10.138.0.11-56"
        ) from None
    if not 0 <= int(high) - int(low) < 65536:
        raise ValueError(f"`{text}` is no rising range; write it such as 10.138.0.11-56")
    return [IPv4Address(number) for number in range(int(low), int(high) + 1)]


def _mac(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return normal_mac(value)
    except ValueError as problem:
        raise ValueError(f"{problem}; write one such as 02:00:5e:10:00:01") from None


def _network(value: Any) -> Any:
    try:
        return IPv4Network(value)
    except ValueError:
        try:
            right = IPv4Network(value, strict=False)
        except ValueError:
            raise ValueError(f"`{value}` is no network; write one such as 10.138.0.0/24") from None
        raise ValueError(f"`{value}` names a host, not a network; write {right}") from None


def _url(value: Any) -> Any:
    """An address of a package repository: no blanks, no secrets, nothing that a template reads."""
    if isinstance(value, str) and not re.fullmatch(r"https?://[\w.:/~%+,-]+", value):
        # It may hold a password, which is for nobody's eyes.
        shown = "this" if "@" in value else f"`{value}`"
        raise ValueError(
            f"{shown} is no address of a repository; "
            "write one such as https://packages.termux.dev/apt/termux-main, without a password"
        )
    return value.rstrip("/") if isinstance(value, str) else value


def _repository_word(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r"[\w.-]+", value):
        raise ValueError(f"`{value}` is no name in a repository; write one such as stable or main")
    return value


def _package(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", value):
        raise ValueError(f"`{value}` is no name of a package; write one such as vim or libc++")
    return value


def _or_value_error(read: Any, text: str) -> Any:
    try:
        return read(text)
    except RackError as problem:
        raise ValueError(str(problem)) from None


GroupName = Annotated[str, _slug(r"[a-z][a-z0-9_]*", 20, "group name")]
SwitchName = Annotated[str, _slug(r"[a-z][a-z0-9_]*", 20, "switch name")]
RackName = Annotated[str, _slug(r"[a-z][a-z0-9-]*", 20, "rack name")]
PhoneName = Annotated[str, _slug(r"[a-z][a-z0-9-]*", 32, "phone name")]
Names = Annotated[list[PhoneName], BeforeValidator(_names), Field(min_length=1)]
Ranges = Annotated[list[int], BeforeValidator(_ranges)]
Addresses = Annotated[list[IPv4Address], BeforeValidator(_addresses), Field(min_length=1)]
Version = Annotated[Literal["1"], BeforeValidator(_version)]
Vlan = Annotated[int, BeforeValidator(switching.vlan)]
VlanName = Annotated[str, _slug(r"[a-z][a-z0-9-]*", 32, "VLAN name")]
SecretName = Annotated[str, BeforeValidator(switching.secret_name)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)


class SnmpFile(_Strict):
    community: SecretName


class NetworkFile(_Strict):
    cidr: Annotated[IPv4Network, BeforeValidator(_network)]
    medium: Literal["ethernet", "wifi"]
    dhcp: Literal["ours", "theirs"] = "theirs"
    time: Literal["ours", "theirs"] = "theirs"
    controller: IPv4Address | None = None
    services: IPv4Address | None = None
    mtu: int = Field(default=1500, ge=576, le=9216)
    vlan: Vlan = 1
    vlans: dict[Vlan, VlanName] = {}
    snmp: SnmpFile | None = None


class LoginFile(_Strict):
    user: Annotated[str, BeforeValidator(switching.user)] = "admin"
    password: SecretName = "switch_password"  # noqa: S105  a name, not a password
    enable: SecretName | None = None


class SwitchFile(_Strict):
    platform: Literal["unmanaged", "cisco_ios", "arista_eos"] = "unmanaged"
    address: IPv4Address | None = None
    ports: int = Field(default=48, ge=1, le=1024)
    uplinks: Annotated[
        dict[Annotated[str, BeforeValidator(switching.uplink_name)], Ranges],
        BeforeValidator(switching.named_or_not),
    ] = {}
    reserved: Ranges = []
    interfaces: dict[str, Annotated[str, BeforeValidator(switching.interface_name)]] = {}
    login: LoginFile = LoginFile()


class PhonesFile(_Strict):
    """A group of phones; a bare address is a group of one."""

    addresses: Addresses
    names: Names | None = None
    group: GroupName | None = None
    model: Annotated[str, BeforeValidator(_label)] | None = None
    api_level: int | None = Field(default=None, ge=21, le=99)
    target: Literal["termux-aarch64", "linux-aarch64", "linux-x86_64"] = "termux-aarch64"
    switch: str | None = None
    ports: Ranges | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare_address(cls, value: Any) -> Any:
        return {"addresses": value} if isinstance(value, str) else value


class VersionsFile(_Strict):
    openmpi: Literal["5.0", "4.1"] = "5.0"
    torch: Literal["any", "none"] = "any"


class PackagesFile(_Strict):
    """A Termux repository outside; without one, all packages come from the operator's folder."""

    upstream: Annotated[str, BeforeValidator(_url)] | None = None
    key: str | None = None
    distribution: Annotated[str, BeforeValidator(_repository_word)] = "stable"
    component: Annotated[str, BeforeValidator(_repository_word)] = "main"
    also: list[Annotated[str, BeforeValidator(_package)]] = []


class ThresholdsFile(_Strict):
    """Whatever the file leaves out keeps the default of `model.Thresholds`."""

    min_free_disk_bytes: ByteSize | None = None
    min_free_memory_bytes: ByteSize | None = None
    max_clock_skew_seconds: float | None = Field(default=None, gt=0)
    max_temperature_celsius: float | None = Field(default=None, gt=0, le=100)
    max_load_per_core: float | None = Field(default=None, gt=0)
    min_charge_ratio: float | None = Field(default=None, ge=0, le=1)
    max_charge_ratio: float | None = Field(default=None, gt=0, le=1)
    max_loss_ratio: float | None = Field(default=None, ge=0, lt=1)
    min_goodput_mbits: float | None = Field(default=None, gt=0)
    min_sustained_ratio: float | None = Field(default=None, gt=0, le=1)
    burn_in_seconds: float | None = Field(default=None, ge=5, le=86400)


Command = Annotated[list[str], BeforeValidator(feeding.command), Field(min_length=1)]


class PowerFile(_Strict):
    """Outlets of one kind: one for each of `phones`, or those of `outlets` with what they feed.

    Fans are switched like outlets; what they feed is the phones that they cool.
    """

    command: Command
    phones: str | list[str] | None = None
    outlets: dict[Annotated[str, BeforeValidator(feeding.outlet_name)], str | list[str]] | None = (
        None
    )
    limit_seconds: float = Field(default=5.0, gt=0, le=60)


class GuardFile(_Strict):
    """Whatever the file leaves out keeps the default of `outlets.GuardLimits`."""

    warn_celsius: float | None = Field(default=None, gt=0, le=80)
    drain_celsius: float | None = Field(default=None, gt=0, le=80)
    cut_celsius: float | None = Field(default=None, gt=0, le=80)
    charge_low_percent: float | None = Field(default=None, ge=5, le=95)
    charge_high_percent: float | None = Field(default=None, ge=5, le=100)
    max_charging: int | None = Field(default=None, ge=1)
    poll_seconds: float | None = Field(default=None, ge=1, le=60)
    silent_seconds: float | None = Field(default=None, ge=10, le=3600)
    call: Command | None = None


class RackFile(_Strict):
    rack: RackName
    version: Version = "1"
    network: NetworkFile
    switches: dict[SwitchName, SwitchFile] = {}
    phones: list[PhonesFile] = Field(min_length=1)
    versions: VersionsFile = VersionsFile()
    packages: PackagesFile = PackagesFile()
    thresholds: ThresholdsFile = ThresholdsFile()
    power: Annotated[list[PowerFile], BeforeValidator(feeding.one_or_many)] = []
    fans: Annotated[list[PowerFile], BeforeValidator(feeding.one_or_many)] = []
    guard: GuardFile = GuardFile()


class LockedPhone(_Strict):
    """What enrolment learnt about one phone."""

    serial: str | None = None
    mac: Annotated[str, BeforeValidator(_mac)] | None = None
    address: IPv4Address | None = None
    api_level: int | None = None
    adb_open: bool = False


class LockFile(_Strict):
    rack: RackName
    version: Version = "1"
    phones: dict[str, LockedPhone] = {}
