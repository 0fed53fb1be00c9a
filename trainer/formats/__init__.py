"""The documents that controller and phones exchange: plan, progress, records, manifests.

Standard library only, since fleetctl and the phone exporter read them without torch. Every
document carries `version`; reading is strict (see strictjson). Times are Unix seconds.
"""

from trainer.files import write_atomic  # for fleetctl, which may import no other module
from trainer.formats.held import (
    HELD,
    MANIFEST,
    HeldFile,
    Holdings,
    Verified,
    held_file,
    record,
    verify,
)
from trainer.formats.models import (
    KNOWN,
    MODELS,
    KnownModel,
    ModelSpec,
    fitted_to,
    misfit,
    unknown_args,
)
from trainer.formats.plan import CheckpointSpec, DataSpec, Exchange, MpiAlgorithm, Plan, PlanError
from trainer.formats.profile import PROFILE, Profile, Threads, Workload
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
from trainer.formats.scatter import held_samples, needed_shards
from trainer.formats.staging import StagedFile, StagePlan, StoreOrder, Survey
from trainer.formats.stored import CheckpointHeader, DataManifest, Shard, ShardHeader
from trainer.formats.training import (
    LOSSES,
    OPTIMIZERS,
    SCHEDULERS,
    LossSpec,
    OptimizerSpec,
    SchedulerSpec,
    class_name,
)
from trainer.strictjson import FormatError

__all__ = [
    "HELD",
    "KNOWN",
    "LOSSES",
    "MANIFEST",
    "MODELS",
    "OPTIMIZERS",
    "PROFILE",
    "SCHEDULERS",
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
    "HeldFile",
    "Holdings",
    "IterationEvent",
    "KnownModel",
    "LossSpec",
    "ModelSpec",
    "MpiAlgorithm",
    "OptimizerSpec",
    "Plan",
    "PlanError",
    "Profile",
    "Progress",
    "SchedulerSpec",
    "Shard",
    "ShardHeader",
    "StagePlan",
    "StagedFile",
    "StartEvent",
    "StoreOrder",
    "Survey",
    "Threads",
    "Verified",
    "Workload",
    "class_name",
    "event_from_json",
    "event_to_json",
    "final_name",
    "fitted_to",
    "held_file",
    "held_samples",
    "misfit",
    "needed_shards",
    "progress_name",
    "record",
    "unknown_args",
    "verify",
    "write_atomic",
]
