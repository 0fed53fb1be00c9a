"""Compile the native libraries for a target by zig, and tell which processor they then need.

They ask nothing of their loader: no C library, no relocations in code, segments that fit pages of
any size. So one recipe serves bionic, glibc and musl.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fleetctl.errors import FleetError

HOSTNAME_LIBRARY = "libphonerack_hostname.so"
KERNEL_LIBRARY = "libphonerack_kernels.so"
SOURCES = Path("trainer/native")
LIBRARIES = {HOSTNAME_LIBRARY: SOURCES / "hostname.c", KERNEL_LIBRARY: SOURCES / "depthwise.c"}
"""By the file that each is compiled from; it may include others of that folder."""

_FLAGS = (
    "-shared", "-nostdlib", "-ffreestanding", "-fno-builtin", "-fPIC", "-O2", "-g0", "-s",
    "-fno-stack-protector", "-fno-sanitize=all", "-fvisibility=hidden", "-Wall", "-Werror",
    # Android 15 has kernels with pages of 16 KiB; 64 KiB suits any.
    "-Wl,-z,max-page-size=65536",
)  # fmt: skip

# What Android's own compiler does, for all, so that what is emulated is what phones run: a register
# that Android keeps to itself, and a way around an error of early Cortex-A53.
_ALIKE = {"aarch64": "+reserve_x18+fix_cortex_a53_835769", "x86_64": ""}

# What generated code may use beyond what every processor of its kind has: zig's word -> the
# kernel's. All else that zig lists is tuning, or speaks to the kernel only.
_KERNEL_WORDS: dict[str, dict[str, tuple[str, ...]]] = {
    "aarch64": {
        "fp_armv8": ("fp",), "neon": ("asimd",), "aes": ("aes", "pmull"),
        "sha2": ("sha1", "sha2"), "sha3": ("sha3", "sha512"), "sm4": ("sm3", "sm4"),
        "crc": ("crc32",), "lse": ("atomics",), "rdm": ("asimdrdm",), "rcpc": ("lrcpc",),
        "rcpc_immo": ("ilrcpc",), "lse2": ("uscat",), "fullfp16": ("fphp", "asimdhp"),
        "fp16fml": ("asimdfhm",), "dotprod": ("asimddp",), "jsconv": ("jscvt",),
        "complxnum": ("fcma",), "flagm": ("flagm",), "altnzcv": ("flagm2",),
        "fptoint": ("frint",), "pauth": ("paca", "pacg"), "bti": ("bti",), "i8mm": ("i8mm",),
        "bf16": ("bf16",), "sve": ("sve",), "sve2": ("sve2",), "rand": ("rng",), "mte": ("mte",),
    },
    "x86_64": {
        "cmov": ("cmov",), "cx8": ("cx8",), "fxsr": ("fxsr",), "mmx": ("mmx",), "sse": ("sse",),
        "sse2": ("sse2",), "sse3": ("pni",), "ssse3": ("ssse3",), "sse4_1": ("sse4_1",),
        "sse4_2": ("sse4_2",), "popcnt": ("popcnt",), "cx16": ("cx16",), "avx": ("avx",),
        "avx2": ("avx2",), "bmi": ("bmi1",), "bmi2": ("bmi2",), "f16c": ("f16c",),
        "fma": ("fma",), "lzcnt": ("abm",), "movbe": ("movbe",), "avx512f": ("avx512f",),
        "avx512bw": ("avx512bw",), "avx512cd": ("avx512cd",), "avx512dq": ("avx512dq",),
        "avx512vl": ("avx512vl",),
    },
}  # fmt: skip


class CompileError(FleetError):
    """A native library cannot be compiled."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a bundle is built for. The libraries need no C library, so none is implied."""

    machine: str
    """As uname says it."""
    triple: str
    """As zig says it."""
    processor: str
    """Every instruction of this one (zig's -mcpu) may be used."""


# ARMv8.0, with its vectors, is what any 64-bit phone has. More is not asked for: nothing here would
# run faster by it, and the Exynos 9810 has cores that lack what its kernel promises for all of
# them. On x86-64 the kernels have code for AVX2 as well, and ask the processor before they run it.
TARGETS = {
    "termux-aarch64": Target("aarch64", "aarch64-linux-android", "generic"),
    "linux-aarch64": Target("aarch64", "aarch64-linux-musl", "generic"),
    "linux-x86_64": Target("x86_64", "x86_64-linux-musl", "x86_64"),
}


def recipe() -> tuple[str, ...]:
    """All that decides about the libraries beside their sources and the compiler's version."""
    targets = (f"{name} {target}" for name, target in TARGETS.items())
    made_of = (f"{name} {source}" for name, source in LIBRARIES.items())
    return (*_FLAGS, str(_ALIKE), *made_of, *targets)


def sources(root: Path) -> dict[str, bytes]:
    """All that is compiled below `root`, by path."""
    found = sorted(path for path in (root / SOURCES).iterdir() if path.suffix in (".c", ".h"))
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def compile_library(root: Path, name: str, target: Target) -> bytes:
    """One of LIBRARIES, of the sources below `root`. Raises CompileError with what zig said."""
    with tempfile.TemporaryDirectory(prefix="phonerack-") as scratch:
        library = Path(scratch) / name
        kind = ("-target", target.triple, f"-mcpu={target.processor}{_ALIKE[target.machine]}")
        files = (f"-Wl,-soname,{name}", "-o", str(library), str(root / LIBRARIES[name]))
        _zig("cc", *kind, *_FLAGS, *files)
        return library.read_bytes()


def needed_features(target: Target) -> list[str]:
    """What the processor of a phone must have, in the kernel's words (/proc/cpuinfo), sorted."""
    said = _zig(
        "build-obj", "--show-builtin", "-target", target.triple, f"-mcpu={target.processor}"
    )
    found = re.search(r"featureSet\(&\.\{(.*?)\}\)", said, re.DOTALL)
    if found is None:
        raise CompileError(f"zig does not say what {target.processor} has: {said[:300]}")
    names = re.findall(r'\.(?:@")?(\w+)', found[1])
    words = _KERNEL_WORDS[target.machine]
    return sorted(word for name in names for word in words.get(name, ()))


def _zig(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ziglang", *arguments], check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise CompileError(f"zig {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout
