"""The stand-in rack: containers that behave like phones, on one machine."""
