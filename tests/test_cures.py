"""What an error tells people to run exists."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
NAMED = re.compile(r"site\.yml[^\n\"'`]*?-t ([a-z]+(?:,[a-z]+)*)")


def tags_of(text: str) -> set[str]:
    """Tags in a playbook: one word, or a list in brackets."""
    found = re.findall(r"tags: (?:\[([^\]]*)\]|(\w+))", text)
    return {tag.strip() for several, one in found for tag in (several or one).split(",")}


def test_every_tag_that_a_cure_or_a_page_names_is_one_of_site_yml() -> None:
    playbooks = [PROJECT / "site.yml", *(PROJECT / "playbooks").glob("*.yml")]
    known = set().union(*(tags_of(file.read_text()) for file in playbooks))
    named: dict[str, str] = {}
    for folder, pattern in (("fleetctl", "**/*.py"), ("docs", "**/*.md"), (".", "README.md")):
        for file in (PROJECT / folder).glob(pattern):
            for tags in re.findall(
                r"site\.yml[^\n\"'`]*?-t ([a-z]+(?:,[a-z]+)*)", file.read_text()
            ):
                named |= dict.fromkeys(tags.split(","), str(file.relative_to(PROJECT)))
    assert named
    assert {tag: file for tag, file in named.items() if tag not in known} == {}
