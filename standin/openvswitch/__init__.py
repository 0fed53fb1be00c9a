"""Switches of the stand-in rack that are Open vSwitches: real forwarding, VLANs, MAC tables.

Each switch is a container with the userspace datapath, in a network namespace of its own, with the
sockets of its database and its daemon in the rack's folder.
"""
