"""The safety watchdog: heat, battery health and charge, independent of Prometheus and `serve`.

`core` decides and has no effects; `service` asks phones, remembers, and does what was decided.
"""
