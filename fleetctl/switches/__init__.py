"""The rack's switches: what they shall do, what they do, and the way from one to the other."""
