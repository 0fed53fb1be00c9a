"""The lines that each kind of switch takes in each mode, and what they do."""

from __future__ import annotations

from standin.switches.editor import Action, Editor
from standin.switches.state import ALL_VLANS


def _settings(**values: object) -> Action:
    """An action that sets attributes of the whole switch."""

    def act(editor: Editor, _: tuple[str, ...]) -> None:
        for name, value in values.items():
            setattr(editor.settings, name, value)

    return act


def _port(**values: object) -> Action:
    return lambda editor, _: editor.set(**values)


def _community(access: str) -> Action:
    def act(editor: Editor, arguments: tuple[str, ...]) -> None:
        name, *lists = arguments
        editor.settings.snmp_communities[name] = " ".join([access, *lists])

    return act


def _forget_community(editor: Editor, arguments: tuple[str, ...]) -> None:
    editor.settings.snmp_communities.pop(arguments[0], None)


def _access_list(editor: Editor, arguments: tuple[str, ...]) -> None:
    editor.settings.access_lists.setdefault(arguments[0], ())
    editor.place("config-nacl", arguments[0])


def _set(name: str) -> Action:
    return lambda editor, arguments: setattr(editor.settings, name, arguments[0])


def _up(editor: Editor, _: tuple[str, ...]) -> None:
    if editor.mode == "config":
        editor.done = True
    editor.place("config", "")


def _end(editor: Editor, _: tuple[str, ...]) -> None:
    editor.place("config", "")
    editor.done = True


def _user(editor: Editor, arguments: tuple[str, ...]) -> None:
    editor.settings.users[arguments[0]] = arguments[-1]


_GLOBAL: dict[str, Action] = {
    "exit": _up,
    "end": _end,
    "hostname WORD": _set("hostname"),
    "vlan VLANS": lambda editor, said: editor.make_vlans(said[0]),
    "no vlan VLANS": lambda editor, said: editor.remove_vlans(said[0]),
    "interface INTERFACE": lambda editor, said: editor.interface(said[0]),
    "interface WORD NUMBER": lambda editor, said: editor.interface("".join(said)),
    "no interface INTERFACE": lambda editor, said: editor.remove_interface(said[0]),
    "spanning-tree mode rapid-pvst": _settings(spanning_tree="rapid-pvst"),
    "lldp run": _settings(lldp=True),
    "no lldp run": _settings(lldp=False),
    "snmp-server community WORD": _community("RO"),
    "snmp-server community WORD ro": _community("RO"),
    "snmp-server community WORD rw": _community("RW"),
    "snmp-server community WORD ro WORD": _community("RO"),
    "snmp-server community WORD rw WORD": _community("RW"),
    "no snmp-server community WORD": _forget_community,
    "no snmp-server community WORD ro": _forget_community,
    "no snmp-server community WORD ro WORD": _forget_community,
    "no snmp-server community WORD rw WORD": _forget_community,
    "snmp-server location LINE": _set("snmp_location"),
    "no snmp-server location": _settings(snmp_location=""),
    "no snmp-server location LINE": _settings(snmp_location=""),
    "ip access-list standard WORD": _access_list,
    "no ip access-list standard WORD": lambda editor, said: (
        editor.settings.access_lists.pop(said[0], None) and None
    ),
    "username WORD privilege COUNT secret WORD": _user,
}

_INTERFACE: dict[str, Action] = {
    "exit": _up,
    "end": _end,
    "description LINE": lambda editor, said: editor.set(description=said[0][:240]),
    "no description": _port(description=""),
    "no description LINE": _port(description=""),
    "switchport": lambda editor, _: editor.keep("", "no switchport"),
    "no switchport": lambda editor, _: editor.keep("no switchport"),
    "switchport mode access": _port(mode="access"),
    "switchport mode trunk": _port(mode="trunk"),
    "switchport access vlan VLAN": lambda editor, said: editor.access_vlan(int(said[0])),
    "no switchport access vlan": _port(access_vlan=1),
    "no switchport access vlan VLAN": _port(access_vlan=1),
    "switchport trunk native vlan VLAN": lambda editor, said: editor.set(native_vlan=int(said[0])),
    "no switchport trunk native vlan": _port(native_vlan=1),
    "no switchport trunk native vlan VLAN": _port(native_vlan=1),
    "switchport trunk allowed vlan VLANS": lambda editor, said: editor.allow("set", said[0]),
    "switchport trunk allowed vlan add VLANS": lambda editor, said: editor.allow("add", said[0]),
    "switchport trunk allowed vlan remove VLANS": (
        lambda editor, said: editor.allow("remove", said[0])
    ),
    "switchport trunk allowed vlan except VLANS": (
        lambda editor, said: editor.allow("except", said[0])
    ),
    "switchport trunk allowed vlan all": lambda editor, _: editor.allow("all"),
    "switchport trunk allowed vlan none": lambda editor, _: editor.allow("none"),
    "no switchport trunk allowed vlan": _port(allowed=ALL_VLANS),
    # Whatever list follows, IOS forgets the whole list, and every VLAN is allowed.
    "no switchport trunk allowed vlan VLANS": _port(allowed=ALL_VLANS),
    "shutdown": _port(shutdown=True),
    "no shutdown": _port(shutdown=False),
    "spanning-tree portfast": lambda editor, _: editor.portfast(),
    "spanning-tree portfast edge": lambda editor, _: editor.portfast(),
    "no spanning-tree portfast": _port(portfast=False),
    "spanning-tree bpduguard enable": _port(bpduguard=True),
    "no spanning-tree bpduguard": _port(bpduguard=False),
    "no spanning-tree bpduguard enable": _port(bpduguard=False),
    "storm-control broadcast level LEVEL": lambda editor, said: editor.set(storm_level=said[0]),
    "no storm-control broadcast level": _port(storm_level=""),
    "no storm-control broadcast level LEVEL": _port(storm_level=""),
    "channel-group GROUP mode active": lambda editor, said: editor.join(int(said[0])),
    "no channel-group": _port(group=None),
    "no channel-group GROUP": _port(group=None),
    "speed 100": lambda editor, _: editor.keep("speed 100", "speed"),
    "speed 1000": lambda editor, _: editor.keep("speed 1000", "speed"),
    "no speed": lambda editor, _: editor.keep("", "speed"),
    "load-interval COUNT": lambda editor, said: editor.keep(f"load-interval {said[0]}", "load-"),
    "no load-interval": lambda editor, _: editor.keep("", "load-"),
}

_VLAN: dict[str, Action] = {
    "exit": _up,
    "end": _end,
    "name WORD": lambda editor, said: editor.name_vlan(said[0]),
    "no name": lambda editor, _: editor.unname_vlan(),
    "no name WORD": lambda editor, _: editor.unname_vlan(),
}

_LIST: dict[str, Action] = {
    "exit": _up,
    "end": _end,
    "permit ADDRESS": lambda editor, said: editor.entry(f"permit {said[0]}", add=True),
    "permit host ADDRESS": lambda editor, said: editor.entry(f"permit {said[0]}", add=True),
    "no permit ADDRESS": lambda editor, said: editor.entry(f"permit {said[0]}", add=False),
    "no permit host ADDRESS": lambda editor, said: editor.entry(f"permit {said[0]}", add=False),
}

_IOS_GLOBAL: dict[str, Action] = {
    **_GLOBAL,
    "spanning-tree mode pvst": _settings(spanning_tree="pvst"),
    "spanning-tree mode mst": _settings(spanning_tree="mst"),
    "no spanning-tree mode": _settings(spanning_tree="pvst"),
    "system mtu MTU": lambda editor, said: setattr(editor.settings, "mtu_bytes", int(said[0])),
    "no system mtu": _settings(mtu_bytes=1500),
    "vtp mode transparent": _settings(vtp="transparent"),
    "vtp mode server": _settings(vtp="server"),
    "no vtp mode": _settings(vtp="server"),
    "no hostname": _settings(hostname="Switch"),
    "archive": lambda editor, _: editor.place("config-archive", ""),
    "no archive": _settings(archive_path=""),
    "enable secret WORD": _set("enable_secret"),
}

_IOS_INTERFACE: dict[str, Action] = {
    **_INTERFACE,
    "switchport mode dynamic auto": _port(mode="dynamic auto"),
    "no switchport mode": _port(mode="dynamic auto"),
    "cdp enable": lambda editor, _: editor.keep("", "no cdp"),
    "no cdp enable": lambda editor, _: editor.keep("no cdp enable"),
    "power inline never": lambda editor, _: editor.keep("power inline never", "power inline"),
    "power inline auto": lambda editor, _: editor.keep("", "power inline"),
    "no power inline never": lambda editor, _: editor.keep("", "power inline"),
    "no power inline": lambda editor, _: editor.keep("", "power inline"),
    "ip address ADDRESS ADDRESS": lambda editor, said: editor.set(address=" ".join(said)),
    "no ip address": _port(address=""),
}

_ARCHIVE: dict[str, Action] = {
    "exit": _up,
    "end": _end,
    "path WORD": _set("archive_path"),
    "no path": _settings(archive_path=""),
}

_EOS_GLOBAL: dict[str, Action] = {
    **_GLOBAL,
    "spanning-tree mode mstp": _settings(spanning_tree="mstp"),
    "no spanning-tree mode": _settings(spanning_tree="mstp"),
    "no hostname": _settings(hostname="localhost"),
    "username WORD privilege COUNT role WORD secret WORD": _user,
}

_EOS_INTERFACE: dict[str, Action] = {
    **_INTERFACE,
    "no switchport mode": _port(mode="access"),
    "ip address PREFIX": lambda editor, said: editor.set(address=said[0]),
    "no ip address": _port(address=""),
    "poe disabled": lambda editor, _: editor.poe("poe disabled"),
    "no poe disabled": lambda editor, _: editor.poe(""),
    "mtu MTU": lambda editor, said: editor.set(mtu_bytes=int(said[0])),
    "no mtu": _port(mtu_bytes=0),
}

Editor.actions.update(
    {
        ("ios", "config"): _IOS_GLOBAL,
        ("ios", "config-if"): _IOS_INTERFACE,
        ("ios", "config-vlan"): _VLAN,
        ("ios", "config-nacl"): _LIST,
        ("ios", "config-archive"): _ARCHIVE,
        ("eos", "config"): _EOS_GLOBAL,
        ("eos", "config-if"): _EOS_INTERFACE,
        ("eos", "config-vlan"): _VLAN,
        ("eos", "config-nacl"): _LIST,
    }
)
