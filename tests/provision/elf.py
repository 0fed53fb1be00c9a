"""Just enough of ELF (64 bit, little-endian) to see what a shared object asks of its loader."""

import struct
from dataclasses import dataclass, field

_PT_LOAD, _PT_DYNAMIC, _SHT_DYNSYM = 1, 2, 11
_DT_NEEDED, _DT_TEXTREL, _DT_FLAGS, _DF_TEXTREL = 1, 22, 30, 4
_PF_X, _PF_W = 1, 2


@dataclass
class SharedObject:
    machine: int
    alignments: set[int] = field(default_factory=set)
    needed: int = 0
    text_relocations: bool = False
    writable_and_executable: bool = False
    symbols: dict[str, bool] = field(default_factory=dict)
    """Dynamic symbols, and whether the object defines them."""


def read(content: bytes) -> SharedObject:
    assert content[:6] == b"\x7fELF\x02\x01"
    (machine,) = struct.unpack_from("<H", content, 18)
    programs, sections = struct.unpack_from("<QQ", content, 32)
    _, program_count, section_size, section_count = struct.unpack_from("<HHHH", content, 54)
    found = SharedObject(machine)
    for i in range(program_count):
        kind, flags, start, _, _, size, _, alignment = struct.unpack_from(
            "<IIQQQQQQ", content, programs + 56 * i
        )
        if kind == _PT_LOAD:
            found.alignments.add(alignment)
            found.writable_and_executable |= flags & (_PF_X | _PF_W) == _PF_X | _PF_W
        if kind == _PT_DYNAMIC:
            tags = list(struct.iter_unpack("<qQ", content[start : start + size]))
            found.needed = sum(tag == _DT_NEEDED for tag, _ in tags)
            found.text_relocations = any(
                tag == _DT_TEXTREL or (tag == _DT_FLAGS and value & _DF_TEXTREL)
                for tag, value in tags
            )
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", content, sections + section_size * i)
        for i in range(section_count)
    ]
    for _, kind, _, _, start, size, link, *_ in headers:
        if kind == _SHT_DYNSYM:
            names = content[headers[link][4] :]
            symbols = struct.iter_unpack("<IBBHQQ", content[start : start + size])
            for name, _, _, section, _, _ in symbols:
                text = names[name : names.index(b"\0", name)].decode()
                if text:
                    found.symbols[text] = section != 0
    return found
