"""Cutting phones off and giving them back, verified by the phones themselves."""
