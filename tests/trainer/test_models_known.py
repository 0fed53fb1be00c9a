"""What fleetctl knows of models without torch: which fit a data set, and with which arguments."""

import re

import pytest

from trainer.formats import KNOWN, ModelSpec, fitted_to, misfit, unknown_args


def test_the_data_set_decides_what_nobody_said() -> None:
    plain = ModelSpec("resnet-18", {"stem": "small"})
    assert fitted_to(plain, (1, 32, 32), 10).args == {
        **{"num_classes": 10, "in_channels": 1},
        "stem": "small",
    }
    said = ModelSpec("resnet-18", {"num_classes": 100})
    assert fitted_to(said, (3, 32, 32), 10).args["num_classes"] == 100
    assert fitted_to(ModelSpec("digits-cnn"), (1, 28, 28), 10).args["pixels"] == 28
    assert fitted_to(ModelSpec("script"), (1, 28, 28), 10) == ModelSpec("script")


@pytest.mark.parametrize(
    ("name", "args", "shape", "complaint"),
    [
        ("alexnet", {}, (3, 32, 32), "alexnet needs images of at least 63x63 .* are 3x32x32"),
        ("inception-v3", {"aux_logits": True}, (3, 224, 224), "at least 251x251"),
        ("resnet-50", {"in_channels": 3}, (1, 28, 28), "in_channels 3, .* 1x28x28: 1 channels"),
        ("digits-cnn", {"pixels": 8}, (1, 28, 28), "images of 8x8 pixels, .* 1x28x28"),
        ("digits-cnn", {}, (1, 28, 30), "28x28 pixels, .* 1x28x30"),
        ("resnet-18", {"num_classes": 5}, (3, 32, 32), "num_classes 5, the data set 10"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_with_both_named(name, args, shape, complaint) -> None:
    reason = misfit(ModelSpec(name, args), shape, 10)
    assert reason is not None
    assert re.search(complaint, reason), reason


@pytest.mark.parametrize("name", KNOWN)
def test_every_model_fits_images_of_its_smallest_size(name: str) -> None:
    pixels = KNOWN[name].pixels
    assert misfit(ModelSpec(name), (3, pixels, pixels), 1000) is None


def test_arguments_that_a_model_does_not_take_are_found() -> None:
    assert unknown_args(ModelSpec("alexnet", {"stem": "small", "dropout": 0.1})) == ["stem"]
    assert unknown_args(ModelSpec("script", {"anything": 1})) == []
