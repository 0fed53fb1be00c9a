"""The documents that controller and phones exchange: plan, progress, records, manifests.

Standard library only, since fleetctl and the phone exporter read them without torch. Every
document carries `version`; reading is strict (see strictjson). Times are Unix seconds.
"""

from trainer.files import write_atomic  # for fleetctl, which may import no other module
from trainer.formats.plan import (
    MODELS,
    OPTIMIZERS,
    CheckpointSpec,
    DataSpec,
    Exchange,
    ModelSpec,
    OptimizerSpec,
    Plan,
    PlanError,
)
from trainer.formats.progress import (
    CheckpointEvent,
    EndEvent,
    EvaluationEvent,
    Event,
    Final,
    IterationEvent,
    Progress,
    StartEvent,
    event_from_json,
    event_to_json,
    final_name,
    progress_name,
)
from trainer.formats.stored import CheckpointHeader, DataManifest, Shard, ShardHeader
from trainer.strictjson import FormatError

__all__ = [
    "MODELS",
    "OPTIMIZERS",
    "CheckpointEvent",
    "CheckpointHeader",
    "CheckpointSpec",
    "DataManifest",
    "DataSpec",
    "EndEvent",
    "EvaluationEvent",
    "Event",
    "Exchange",
    "Final",
    "FormatError",
    "IterationEvent",
    "ModelSpec",
    "OptimizerSpec",
    "Plan",
    "PlanError",
    "Progress",
    "Shard",
    "ShardHeader",
    "StartEvent",
    "event_from_json",
    "event_to_json",
    "final_name",
    "progress_name",
    "write_atomic",
]
