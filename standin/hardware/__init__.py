"""The hardware of stand-in phones: heat, battery and power, and what their Android tells of it.

`model.advance` is pure: the same states, loads and seconds give the same states again. `service`
runs it once a second on what the containers really compute, and lets throttling act on them.
"""

from standin.hardware.files import render
from standin.hardware.state import HardwareState

__all__ = ["HardwareState", "render"]
