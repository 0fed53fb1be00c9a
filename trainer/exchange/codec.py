"""What a part of the data looks like on the wire. Float32 is what phones keep and add up.

A codec is lossless on what it has decoded itself, however the data are cut: so all phones hold
the same bits after an all-gather in which each passes on what it got.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Codec(Protocol):
    """`grain`: numbers that must not be cut apart. `plain`: the wire carries the data's bytes."""

    grain: int
    plain: bool

    def wire_bytes(self, length: int, itemsize: int) -> int:
        """Bytes on the wire of a part of `length` numbers that begins on the grain."""
        ...

    def encode(self, part: np.ndarray, wire: np.ndarray) -> None:
        """Fill `wire` (uint8, `wire_bytes` long) from `part`."""
        ...

    def decode(self, wire: np.ndarray, part: np.ndarray) -> None:
        """Fill `part` from `wire`."""
        ...

    def add(self, wire: np.ndarray, part: np.ndarray) -> None:
        """Add what `wire` carries to `part`."""
        ...


class Plain:
    """The data as they are."""

    grain = 1
    plain = True

    def wire_bytes(self, length: int, itemsize: int) -> int:
        return length * itemsize

    def encode(self, part: np.ndarray, wire: np.ndarray) -> None:
        wire.view(part.dtype)[...] = part

    def decode(self, wire: np.ndarray, part: np.ndarray) -> None:
        part[...] = wire.view(part.dtype)

    def add(self, wire: np.ndarray, part: np.ndarray) -> None:
        part += wire.view(part.dtype)


class Half:
    """Float16 under one power of two a block of `grain` numbers: 2 bytes a number, 2 a block.

    The power puts the largest number of the block near the end of float16's range, so that
    neither size nor smallness of gradients matters: the error of a number is at most 2^-11 of its
    size, or 2^-40 of the block's largest. What is not finite stays so.
    """

    grain = 1024
    plain = False

    _TOP = 15
    """The largest number of a block becomes at least 2^14 and at most 2^15."""
    _MOST = 115
    """Of the powers: both 2^_MOST and its inverse are ordinary float32 numbers."""

    def wire_bytes(self, length: int, itemsize: int) -> int:
        if itemsize != np.float32().itemsize:
            raise TypeError("codec half carries float32 only")
        return 2 * (self._blocks(length) + length)

    def encode(self, part: np.ndarray, wire: np.ndarray) -> None:
        if not part.size:
            return
        powers, numbers = self._split(wire, part.size)
        starts = np.arange(0, part.size, self.grain)
        powers[...] = self._powers(np.maximum.reduceat(np.abs(part), starts))
        scaled = self._scaled(part, powers)
        np.clip(scaled, -65504, 65504, out=scaled, where=np.isfinite(scaled))
        numbers[...] = scaled

    def decode(self, wire: np.ndarray, part: np.ndarray) -> None:
        if part.size:
            powers, numbers = self._split(wire, part.size)
            part[...] = self._scaled(numbers.astype(np.float32), -powers)

    def add(self, wire: np.ndarray, part: np.ndarray) -> None:
        if part.size:
            powers, numbers = self._split(wire, part.size)
            part += self._scaled(numbers.astype(np.float32), -powers)

    def _blocks(self, length: int) -> int:
        return -(-length // self.grain)

    def _split(self, wire: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
        """The powers of the blocks, and the numbers, as views of `wire`."""
        blocks = self._blocks(length)
        return wire[: 2 * blocks].view(np.int16), wire[2 * blocks :].view(np.float16)

    def _powers(self, largest: np.ndarray) -> np.ndarray:
        """The power of each block. Taken from the largest number as float16 will round it: else
        a number that is rounded up to a power of two would get another one when passed on."""
        rounded = (largest.view(np.uint32) + np.uint32(0x1000)).view(np.float32)
        _, exponents = np.frexp(np.where(np.isfinite(largest), rounded, 0))
        powers = np.minimum(self._TOP - exponents, self._MOST)
        return np.where(np.isfinite(largest) & (largest > 0), powers, 0)

    def _scaled(self, numbers: np.ndarray, powers: np.ndarray) -> np.ndarray:
        """A copy of float32 `numbers`, each block multiplied by two to its power."""
        factors = np.ldexp(np.float32(1), powers.astype(np.int32))
        whole = len(numbers) // self.grain * self.grain
        scaled = np.empty_like(numbers)
        blocks = numbers[:whole].reshape(-1, self.grain)
        rows = scaled[:whole].reshape(blocks.shape)
        with np.errstate(over="ignore"):  # what is rounded up beyond float32 is infinite
            np.multiply(blocks, factors[: len(blocks), None], out=rows)
            np.multiply(numbers[whole:], factors[-1], out=scaled[whole:])
        return scaled


PLAIN = Plain()
CODECS: dict[str, Codec] = {"none": PLAIN, "half": Half()}
