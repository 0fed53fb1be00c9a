"""Numbers that planners need, out of what was measured. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fleetctl.plan.cost import ring_terms


@dataclass(frozen=True, slots=True)
class RingSample:
    """One ring all-reduce: so many bytes on so many phones took so long."""

    phones: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LinkFit:
    """The cost of a ring: 2(p-1)α + 2(p-1)/p·S/B. `error` is the root mean square of the relative
    errors of what it says about the samples."""

    alpha_seconds: float
    bytes_per_second: float
    error: float
    samples: int

    def ring_seconds(self, phones: int, size_bytes: float) -> float:
        steps, traffic = ring_terms(phones, size_bytes)
        return steps * self.alpha_seconds + traffic / self.bytes_per_second


def fit_ring(samples: Iterable[RingSample]) -> LinkFit:
    """α and B by least squares of relative errors, so that small messages count as much as large.

    Neither is negative. Raises ValueError when the samples do not tell the two apart.
    """
    rows = [(*ring_terms(s.phones, s.bytes), s.seconds) for s in samples if s.phones > 1]
    if any(seconds <= 0 for *_, seconds in rows):
        raise ValueError("an all-reduce took no time at all")
    scaled = [(steps / seconds, traffic / seconds) for steps, traffic, seconds in rows]
    # In units of the largest of each column the equations are well conditioned.
    units = [max((row[i] for row in scaled), default=0.0) for i in (0, 1)]
    if not all(units):
        raise ValueError("there is no all-reduce between two phones or more")
    x, y = ([row[i] / units[i] for row in scaled] for i in (0, 1))
    alpha, inverse = _least_squares(x, y)
    alpha, inverse = alpha / units[0], inverse / units[1]
    errors = [steps * alpha + traffic * inverse - 1 for steps, traffic in scaled]
    error = math.sqrt(statistics.fmean(e * e for e in errors))
    return LinkFit(alpha, 1 / inverse, error, len(rows))


_SINGULAR = 1e-9


def _least_squares(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """a, b ≥ 0 with a·x + b·y nearest to 1."""
    xx, yy = (math.fsum(v * v for v in each) for each in (x, y))
    xy = math.fsum(v * w for v, w in zip(x, y, strict=True))
    determinant = xx * yy - xy * xy
    if determinant <= _SINGULAR * xx * yy:
        raise ValueError("sizes are too much alike to tell α from B; measure small and large ones")
    sum_x, sum_y = math.fsum(x), math.fsum(y)
    a = (sum_x * yy - sum_y * xy) / determinant
    b = (sum_y * xx - sum_x * xy) / determinant
    if a < 0:
        return 0.0, sum_y / yy
    if b <= 0:
        raise ValueError("large messages took no longer than small ones; measure larger ones")
    return a, b


def steps_of_phones(most: int, least: int = 2) -> tuple[int, ...]:
    """`least`, then twice as many, up to `most`, which is always there."""
    found = []
    count = least
    while count < most:
        found.append(count)
        count *= 2
    return (*found, most) if most >= least else ()


def throughput_efficiency(phones: int, rate: float, base_phones: int, base_rate: float) -> float:
    """Images a second a phone, against those of the fewest phones. 1 is perfect; it holds for a
    fixed global batch and for a fixed batch a phone alike."""
    return rate / phones / (base_rate / base_phones)


def speed_up(rate: float, base_rate: float, base_phones: int) -> float:
    """How many phones' worth of images a second, if the fewest phones did not lose any."""
    return rate / base_rate * base_phones
