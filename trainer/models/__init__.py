"""Models by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import nn

from trainer.formats import ModelSpec, PlanError
from trainer.models import own


def _constructors() -> Mapping[str, Callable[..., nn.Module]]:
    # Here, since importing torchvision takes longer than a run with a small model needs to begin.
    from trainer.models.vision import vision

    # Without the heads unless asked for: as the paper counts, and as most people train today.
    return {
        "alexnet": vision("alexnet"),
        "googlenet-bn": vision("googlenet", aux_logits=False, init_weights=True),
        "inception-v3": vision("inception_v3", aux_logits=False, init_weights=True),
        "resnet-18": vision("resnet18"),
        "resnet-50": vision("resnet50"),
        "resnet-152": vision("resnet152"),
        "squeezenet": vision("squeezenet1_1"),
        "mobilenet-v2": vision("mobilenet_v2"),
        "mnasnet": vision("mnasnet1_0"),
    }


_OWN: Mapping[str, Callable[..., nn.Module]] = {
    "digits-cnn": own.digits_cnn,
    "googlenet": own.GoogLeNet,
    "mobilenet-v1": own.mobilenet_v1,
}


def build(spec: ModelSpec) -> nn.Module:
    """The model that the plan names; torch's seed decides its first parameters."""
    if spec.name == "script":
        raise PlanError("model.name 'script': the program must pass its model to trainer.fit")
    constructors = _OWN if spec.name in _OWN else _constructors()
    try:
        return constructors[spec.name](**spec.args)
    except (TypeError, ValueError) as error:
        raise PlanError(f"model.args of {spec.name!r}: {error}") from None
