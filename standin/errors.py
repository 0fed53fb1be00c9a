"""What the stand-in rack cannot do, in one sentence with its cure."""

from fleetctl.errors import FleetError


class StandinError(FleetError):
    """The host lacks something, or a command of the engine or the fabric failed."""
