"""Exporters: what a phone tells Prometheus about itself, and the dashboard that shows it."""
