"""arm64 programs run on this machine by qemu's user-mode emulation, for as long as it is needed."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

# An ELF file for arm64; the kernel hands it to the interpreter, which it keeps open (F), so that
# it is found inside of containers too.
_MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
_MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
# In a mount namespace of its own, and until its input ends: then also when this process is killed.
_SCRIPT = """
mount -t binfmt_misc none /mnt && printf %s "$2" >/mnt/register && echo ready && read -r _
echo -1 >"/mnt/$1"; umount /mnt
"""


@contextmanager
def emulation() -> Iterator[None]:
    """Until the end of the block, this kernel runs arm64 programs."""
    if platform.machine() == "aarch64":
        yield
        return
    qemu = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    assert qemu, "qemu-aarch64 is not installed: run `tools/setup dev`"
    name = f"phonerack-{os.getpid()}"
    rule = f":{name}:M::{_MAGIC}:{_MASK}:{qemu}:CF"
    helper = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", _SCRIPT, "sh", name, rule],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert helper.stdout is not None
    try:
        said = helper.stdout.readline()
        assert said == "ready\n", f"binfmt_misc: {helper.communicate()[1]}"
        yield
    finally:
        helper.communicate("\n")
