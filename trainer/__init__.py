"""The trainer: runs on the phones, imports nothing of the controller."""

from typing import Any

__all__ = ["fit", "load_data"]


def __getattr__(name: str) -> Any:
    """`fit` and `load_data` on first use, so that the formats do not cost an import of torch."""
    if name in __all__:
        from trainer import api

        return getattr(api, name)
    raise AttributeError(f"module 'trainer' has no attribute {name!r}")
