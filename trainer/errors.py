"""The base of every failure that the trainer can explain."""


class TrainerError(Exception):
    """The message says what happened, where, and what to do; no traceback is needed."""
