"""new_version.py FOLDER NAME SCRIPT: a next version of a package, in the place of the one there.

SCRIPT is its postinst: where that fails, so does the installation.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

PREFIX = "/data/data/com.termux/files/usr"


def main() -> int:
    folder, name, script = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    (old,) = folder.glob(f"{name}_*.deb")
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "tree"
        subprocess.run(["dpkg-deb", "-R", old, root], check=True)
        control = root / "DEBIAN/control"
        version = old.name.split("_")[1]
        text = control.read_text()
        control.write_text(text.replace(f"Version: {version}\n", f"Version: {version}+next\n"))
        postinst = root / "DEBIAN/postinst"
        postinst.write_text(f"#!{PREFIX}/bin/sh\nPREFIX={PREFIX}\n{script}\n")
        postinst.chmod(0o755)
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", root, folder], check=True)
    old.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
