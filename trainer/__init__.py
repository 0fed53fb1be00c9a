"""The trainer: runs on the phones, imports nothing of the controller."""

from typing import Any

__all__ = ["ddp_hook", "fit", "load_data"]


def __getattr__(name: str) -> Any:
    """What needs torch, on first use, so that the formats do not cost its import."""
    if name == "ddp_hook":
        from trainer.hook import ddp_hook

        return ddp_hook
    if name in __all__:
        from trainer import api

        return getattr(api, name)
    raise AttributeError(f"module 'trainer' has no attribute {name!r}")
