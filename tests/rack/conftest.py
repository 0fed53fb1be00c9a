"""Settings of the property tests."""

from hypothesis import settings

# The first example imports pydantic; how long an example takes says nothing about the rack.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
