"""Profile in, plan out: what a run would take, before a phone is asked. Pure."""
