"""A program for the phone's Python that the phone compiles once, not at every call.

Compiling costs a probe as much as Python's own start. The compiled form is kept under $HOME as
`phonerack/NAME.code`, in one file that is replaced at one moment: a checksum, what it was compiled
from and by which Python, the code. Another program, another Python or a damaged file: compiled
anew, from the source on standard input, which is there in any case.
"""

from __future__ import annotations

import hashlib
import shlex

from fleetctl.rack.variables import TERMUX_PREFIX

LOADER = """
import marshal, os, sys
from binascii import crc32
from _frozen_importlib_external import MAGIC_NUMBER
path, keep = os.environ.get("HOME", "") + "/phonerack/" + sys.argv[1], sys.argv[3] == "keep"
made_of = sys.argv[2].encode() + MAGIC_NUMBER
code = None
try:
    with open(path, "rb") as file:
        kept = file.read()
    if kept[4:].startswith(made_of) and kept[:4] == crc32(kept[4:]).to_bytes(4, "big"):
        code = marshal.loads(kept[4 + len(made_of):])
except OSError:
    pass
if code is None:
    code = compile(sys.stdin.buffer.read(), sys.argv[1], "exec")
    part = path + "." + str(os.getpid()) + ".part"
    if keep:
        try:
            kept = made_of + marshal.dumps(code)
            with open(part, "wb") as file:
                file.write(crc32(kept).to_bytes(4, "big") + kept)
            os.rename(part, path)
        except OSError:
            pass
sys.argv[:] = sys.argv[4:]
exec(code, {"__name__": "__main__"})
"""


def command(name: str, program: str, *arguments: str, keep: bool) -> str:
    """The shell command that runs `program`, which goes to its standard input, with `arguments`.

    Without `keep` nothing is written on the phone; what an earlier call kept is used all the same.
    """
    digest = hashlib.sha256(program.encode()).hexdigest()
    words = [f"{name}.code", digest, "keep" if keep else "leave", name, *arguments]
    # Without `site`: most of a start of Python is its search for packages.
    return f"{TERMUX_PREFIX}/bin/python -S -c {shlex.quote(LOADER)} {shlex.join(words)}"
