"""Just enough of ELF (64 bit, little-endian) to see what a shared object asks of its loader, and
what bionic's loader would refuse it for, since no phone is here to be asked."""

import struct
from dataclasses import dataclass, field

ET_DYN, PT_LOAD, PT_DYNAMIC, PT_GNU_STACK, PF_X, PF_W = 3, 1, 2, 0x6474E551, 1, 2
SHT_STRTAB, SHT_DYNAMIC, SHT_DYNSYM = 3, 6, 11
DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_SONAME, DT_TEXTREL, DT_FLAGS = 1, 4, 5, 6, 14, 22, 30
DT_GNU_HASH, DF_TEXTREL = 0x6FFFFEF5, 4
PAGE_SIZES = (4 << 10, 16 << 10, 64 << 10)
"""Of phones until Android 14, of phones from 15 on, and the largest that arm64 has."""


@dataclass
class Segment:
    kind: int
    flags: int
    offset: int
    address: int
    size: int
    alignment: int


@dataclass
class Section:
    kind: int
    offset: int
    size: int
    link: int


@dataclass
class SharedObject:
    kind: int
    machine: int
    segments: list[Segment]
    sections: list[Section]
    tags: list[tuple[int, int]] = field(default_factory=list)
    """Of the dynamic segment: what the loader acts on."""
    symbols: dict[str, bool] = field(default_factory=dict)
    """Dynamic symbols, and whether the object defines them."""


def read(content: bytes) -> SharedObject:
    assert content[:6] == b"\x7fELF\x02\x01"
    kind, machine = struct.unpack_from("<HH", content, 16)
    programs, sections = struct.unpack_from("<QQ", content, 32)
    _, program_count, section_size, section_count = struct.unpack_from("<HHHH", content, 54)
    found = SharedObject(kind, machine, [], [])
    for i in range(program_count):
        kind, flags, offset, address, _, size, _, alignment = struct.unpack_from(
            "<IIQQQQQQ", content, programs + 56 * i
        )
        found.segments.append(Segment(kind, flags, offset, address, size, alignment))
        if kind == PT_DYNAMIC:
            found.tags = list(struct.iter_unpack("<qQ", content[offset : offset + size]))
    for i in range(section_count):
        _, kind, _, _, offset, size, link, *_ = struct.unpack_from(
            "<IIQQQQIIQQ", content, sections + section_size * i
        )
        found.sections.append(Section(kind, offset, size, link))
    for section in found.sections:
        if section.kind == SHT_DYNSYM:
            names = content[found.sections[section.link].offset :]
            table = content[section.offset : section.offset + section.size]
            for name, _, _, defined, _, _ in struct.iter_unpack("<IBBHQQ", table):
                text = names[name : names.index(b"\0", name)].decode()
                if text:
                    found.symbols[text] = defined != 0
    return found


def complaints(library: SharedObject) -> list[str]:
    """What bionic refuses or warns about, for apps of any API level; empty is good."""
    found = []
    tags = dict(library.tags)
    loads = [segment for segment in library.segments if segment.kind == PT_LOAD]
    dynamic = [segment for segment in library.segments if segment.kind == PT_DYNAMIC]
    if library.kind != ET_DYN:
        found.append("no shared object")
    if not {DT_STRTAB, DT_SYMTAB} <= tags.keys() or not {DT_HASH, DT_GNU_HASH} & tags.keys():
        found.append("no symbol, string or hash table")
    if DT_SONAME not in tags:
        found.append("no name of its own (API 23)")
    if DT_NEEDED in tags:
        found.append("needs another library")
    if DT_TEXTREL in tags or tags.get(DT_FLAGS, 0) & DF_TEXTREL:
        found.append("text relocations (API 23)")
    if any(segment.flags & PF_X and segment.flags & PF_W for segment in library.segments):
        found.append("a segment or the stack is writable and executable (API 26)")
    if not any(segment.kind == PT_GNU_STACK for segment in library.segments):
        found.append("says nothing about its stack")
    described = [s for s in library.sections if s.kind == SHT_DYNAMIC]
    if [(s.offset, s.size) for s in described] != [(s.offset, s.size) for s in dynamic]:
        found.append("sections do not describe the dynamic segment (API 26)")
    elif any(library.sections[s.link].kind != SHT_STRTAB for s in described):
        found.append("the dynamic section has no strings (API 26)")
    for page in PAGE_SIZES:
        if any((load.address - load.offset) % page or load.alignment % page for load in loads):
            found.append(f"segments do not fit pages of {page >> 10} KiB")
    return found
