"""Dashboards for Grafana, as code: each module is the source of the JSON file beside it."""
