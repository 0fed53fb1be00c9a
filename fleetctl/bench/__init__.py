"""Measurements of the rack, as tables and figures."""
