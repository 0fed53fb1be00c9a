"""Augmentation follows from seed, epoch and sample number alone."""

import numpy as np
import pytest

from trainer.augment import Augmentation, Normalisation, centre, cropped
from trainer.data import Data, DataError, Split
from trainer.formats import DataSpec

IMAGES = np.arange(20 * 2 * 6 * 7, dtype=np.float32).reshape(20, 2, 6, 7)


def augmented(samples: list[int], epoch: int = 0, **wishes: object) -> np.ndarray:
    spec = DataSpec("d", "d", **wishes)  # type: ignore[arg-type]
    chosen = np.array(samples)
    return Augmentation(spec, 20, (6, 7), 5, epoch).apply(IMAGES[chosen], chosen)


@pytest.mark.parametrize("wishes", [{"flip": True}, {"crop_pixels": 4}, {"shift_pixels": 2}, {}])
def test_a_sample_s_fate_does_not_depend_on_who_trains_it_with_which_others(wishes) -> None:
    whole = augmented(list(range(20)), **wishes)
    np.testing.assert_array_equal(augmented([3, 17, 4], **wishes), whole[[3, 17, 4]])
    if wishes:
        assert not np.array_equal(augmented(list(range(20)), epoch=1, **wishes), whole)


def test_about_half_of_the_images_are_mirrored_and_the_others_untouched() -> None:
    whole = augmented(list(range(20)), flip=True)
    kept = [np.array_equal(a, b) for a, b in zip(whole, IMAGES, strict=True)]
    mirrored = [np.array_equal(a, b[..., ::-1]) for a, b in zip(whole, IMAGES, strict=True)]
    assert [a or b for a, b in zip(kept, mirrored, strict=True)] == [True] * 20
    assert 4 <= sum(mirrored) <= 16


def test_a_crop_is_a_part_of_its_image_and_every_place_is_possible() -> None:
    corners = set()
    for epoch in range(40):
        for image, part in zip(
            IMAGES, augmented(list(range(20)), epoch, crop_pixels=4), strict=True
        ):
            row, column = divmod(int(part[0, 0, 0] - image[0, 0, 0]), 7)
            np.testing.assert_array_equal(part, image[:, row : row + 4, column : column + 4])
            corners.add((row, column))
    assert corners == {(row, column) for row in range(3) for column in range(4)}


def test_test_images_are_cut_in_the_middle() -> None:
    corners = np.tile([1, 1], (20, 1))
    np.testing.assert_array_equal(centre(IMAGES, 4), cropped(IMAGES, corners, 4))
    assert centre(IMAGES, 0) is IMAGES


def test_normalised_images_have_mean_0_and_deviation_1() -> None:
    mean, deviation = IMAGES.mean((0, 2, 3)), IMAGES.std((0, 2, 3))
    split = Split(IMAGES, np.zeros(20, np.int64))
    data = Data(split, split, 1, tuple(mean.tolist()), tuple(deviation.tolist()))
    found = Normalisation.of(data).apply(IMAGES)
    np.testing.assert_allclose(found.mean((0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(found.std((0, 2, 3)), 1, rtol=1e-5)
    flat = Normalisation.of(Data(split, split, 1, (5.0, 5.0), (0.0, 1.0)))
    assert np.isfinite(flat.apply(IMAGES)).all()
    with pytest.raises(DataError, match="make it anew with `fleetctl data add`"):
        Normalisation.of(Data(split, split, 1))
