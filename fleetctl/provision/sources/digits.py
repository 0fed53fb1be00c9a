"""The handwritten digits that scikit-learn ships: no file, no download."""

from __future__ import annotations

import numpy as np

from fleetctl.provision.sources.model import Source, from_array


def read() -> Source:
    """1,797 images of 8x8 pixels (UCI), in 0..1."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = (digits.images[:, np.newaxis] / digits.images.max()).astype(np.float32)
    samples = from_array(digits.target, [images], ["digits"])
    return Source("digits", samples, None, (1, 8, 8), "float32", tuple("0123456789"))
