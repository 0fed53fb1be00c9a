#!/usr/bin/python
"""Write a set of small files on a phone in one go."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
import stat
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: phone_files
short_description: Write several small files, all or none
description:
  - One task for what a role configures, since a task costs more than a file.
  - All new contents are written beside their places and validated first. Only when every one is
    good are they renamed into place, so that a mistake never takes half effect.
  - What a run has left that was killed in between is removed by the next.
options:
  files:
    description: The files, in the order in which they take effect.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Absolute path; missing folders are made with mode 0700.
        type: path
        required: true
      content:
        description: The whole text.
        type: str
      encoding:
        description: V(base64) for O(files[].content) that is no text.
        type: str
        choices: [text, base64]
        default: text
      source:
        description: Instead of O(files[].content), a file on the phone whose bytes are wanted.
        type: path
      begins:
        description:
          - Instead of O(files[].content), for a file of somebody else's. Its first line, empty ones
            and comments aside, must be one of these. Where it is none, the first of them is put
            before what is there. Such a file keeps its permissions.
        type: list
        elements: str
      mode:
        description: Octal permissions as text.
        type: str
        default: "0600"
      validate:
        description: Command, with C(%s) for the new file, that must succeed before it is used.
        type: str
  proofs:
    description: What must be true once the files are in their places.
    type: list
    elements: dict
    default: []
    suboptions:
      command:
        description: A program that says what it goes by, one thing a line.
        type: str
        required: true
      lines:
        description: Lines that must be among these.
        type: list
        elements: str
        required: true
      cure:
        description: What to do where they are not.
        type: str
        required: true
attributes:
  check_mode:
    support: full
    description: >-
      Nothing is written, so C(validate) does not run either, and C(proofs) only where nothing would
      be written.
  diff_mode:
    support: full
author: phonerack
"""

EXAMPLES = r"""
- name: Write the host file and the parameters
  phone_files:
    files:
      - path: "{{ termux_home }}/phonerack/hostfile"
        content: "{{ hostfile }}"
      - path: "{{ termux_prefix }}/etc/ssh/sshd_config"
        content: "{{ sshd_config }}"
        validate: "{{ termux_prefix }}/bin/sshd -t -f %s"
"""

RETURN = r"""
written:
  description: Paths of the files that changed, or would change in check mode.
  returned: success
  type: list
  elements: str
"""


STAGED = "phonerack"
"""How the names of files end that are not in their places yet; before it stands who writes."""


class File(NamedTuple):
    """One file as it shall be."""

    path: Path
    content: bytes | None
    """None where its source is about to come, which check mode alone may say."""
    mode: int
    validate: str | None

    @classmethod
    def parse(cls, item: dict[str, Any], check: bool) -> File:
        """Raises OSError for a source that cannot be read, unless in check mode."""
        path, mode = Path(item["path"]), int(item["mode"], 8)
        if item["begins"] is not None:
            there = path.read_bytes() if path.exists() else b""
            content = begun(there, item["begins"])
            mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else mode
        elif item["source"] is None:
            content = item["content"].encode()
            if item["encoding"] == "base64":
                content = base64.b64decode(content, validate=True)
        else:
            source = Path(item["source"])
            content = None if check and not source.exists() else source.read_bytes()
        return cls(path, content, mode, item["validate"])

    def present(self) -> bytes | None:
        """What is there now, None without a file."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    def present_mode(self) -> int | None:
        try:
            return stat.S_IMODE(self.path.stat().st_mode)
        except FileNotFoundError:
            return None

    @property
    def differs(self) -> bool:
        return self.present() != self.content or self.present_mode() != self.mode

    def stage(self, number: int) -> Path:
        """Write the new text beside its place, down to the disk."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        staged = self.path.with_name(f".{self.path.name}.{os.getpid()}.{number}.{STAGED}")
        handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(self.content or b"")
            file.flush()
            os.fsync(file.fileno())
        staged.chmod(self.mode)
        return staged

    def leftovers(self) -> list[Path]:
        """What others have staged for this place whose process is gone."""
        if not self.path.parent.is_dir():
            return []
        pattern = re.compile(re.escape(f".{self.path.name}.") + rf"(\d+)\.\d+\.{STAGED}")
        found = ((path, pattern.fullmatch(path.name)) for path in self.path.parent.iterdir())
        return [path for path, match in found if match and not is_ours(int(match[1]))]

    def diff(self) -> dict[str, str]:
        mode = self.present_mode()
        before = "absent" if mode is None else f"mode {mode:04o}"
        return {
            "before_header": f"{self.path} ({before})",
            "after_header": f"{self.path} (mode {self.mode:04o})",
            "before": shown(self.present()),
            "after": shown(self.content),
        }


def begun(content: bytes, lines: list[str]) -> bytes:
    """The content, with the first of the lines before it unless one of them begins it already."""
    said = (line.strip() for line in content.splitlines())
    first = next((line for line in said if line and not line.startswith(b"#")), b"")
    if first in [line.encode() for line in lines]:
        return content
    return lines[0].encode() + b"\n" + content


def is_ours(pid: int) -> bool:
    """Whether a process of this user's has this number; another app's never writes here."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def shown(content: bytes | None) -> str:
    """As text, or what can be said of bytes that are none."""
    if content is None:
        return ""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"{len(content)} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}\n"


def check(module: AnsibleModule, file: File, staged: Path) -> None:
    """Fail when the file's own program refuses the new text."""
    if file.validate is None:
        return
    code, out, err = module.run_command(file.validate.replace("%s", str(staged)))
    if code != 0:
        said = (err or out).strip().replace(str(staged), str(file.path))
        module.fail_json(msg=f"{file.path} is refused and nothing was written: {said}")


def write(module: AnsibleModule, files: list[File]) -> None:
    with contextlib.ExitStack() as cleanup:
        staged = []
        for number, file in enumerate(files):
            temporary = file.stage(number)
            cleanup.callback(temporary.unlink, missing_ok=True)
            staged.append((file, temporary))
        for file, temporary in staged:
            check(module, file, temporary)
        for file, temporary in staged:
            temporary.replace(file.path)


def prove(module: AnsibleModule, proof: dict[str, Any]) -> None:
    """Fail where a program goes by other things than it should."""
    code, out, err = module.run_command(proof["command"])
    if code != 0:
        module.fail_json(msg=f"`{proof['command']}` fails: {err.strip()} ({proof['cure']})")
    there = {line.strip() for line in out.splitlines()}
    if missing := [f"`{line}`" for line in proof["lines"] if line not in there]:
        said = f"{Path(proof['command'].split()[0]).name} does not go by {', '.join(missing)}"
        module.fail_json(msg=f"{said} ({proof['cure']})")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "files": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "path": {"type": "path", "required": True},
                    "content": {"type": "str"},
                    "encoding": {"choices": ["text", "base64"], "default": "text"},
                    "source": {"type": "path"},
                    "begins": {"type": "list", "elements": "str"},
                    "mode": {"type": "str", "default": "0600"},
                    "validate": {"type": "str"},
                },
                "required_one_of": [["content", "source", "begins"]],
                "mutually_exclusive": [["content", "source", "begins"]],
            },
            "proofs": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "command": {"type": "str", "required": True},
                    "lines": {"type": "list", "elements": "str", "required": True},
                    "cure": {"type": "str", "required": True},
                },
            },
        },
        supports_check_mode=True,
    )
    try:
        wanted = [File.parse(item, module.check_mode) for item in module.params["files"]]
        changed = [file for file in wanted if file.differs]
        diff = [file.diff() for file in changed]
        if not module.check_mode:
            for leftover in [path for file in wanted for path in file.leftovers()]:
                leftover.unlink(missing_ok=True)
        if changed and not module.check_mode:
            write(module, changed)
        if not (changed and module.check_mode):
            for proof in module.params["proofs"]:
                prove(module, proof)
    except ValueError as problem:
        module.fail_json(msg=f"nothing was written: a content is no base64: {problem}")
    except OSError as problem:
        module.fail_json(msg=f"nothing was written: {problem.filename}: {problem.strerror}")
    module.exit_json(changed=bool(changed), written=[str(file.path) for file in changed], diff=diff)


if __name__ == "__main__":
    main()
