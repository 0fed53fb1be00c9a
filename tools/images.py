#!/usr/bin/env python
"""Builds the stand-ins' images that are missing, so that tests find them there."""

from __future__ import annotations

import sys

from standin import arm64, images
from standin.errors import StandinError
from standin.openvswitch import image as switch


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


try:
    for kind in (images, switch, arm64):
        kind.ensure(say)
except StandinError as problem:
    sys.exit(f"images: {problem}")
