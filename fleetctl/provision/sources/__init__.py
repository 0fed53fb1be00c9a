"""Where data sets come from: one file a format, each giving a Source."""

from fleetctl.provision.sources.model import (
    DataSetError,
    Images,
    Options,
    Samples,
    Source,
    SourceError,
)

__all__ = ["DataSetError", "Images", "Options", "Samples", "Source", "SourceError"]
