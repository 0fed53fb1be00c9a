"""Stand-in switches: stateful command lines of the IOS and the EOS kind, and what they drive."""
