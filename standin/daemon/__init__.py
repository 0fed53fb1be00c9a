"""One background process a stand-in rack, for all of it that goes on by itself.

`fleetctl standin up` starts it (`process`), `down` ends it. It runs the services of `services`,
each `async def run(desk)`, and answers the stand-in's commands on a socket in the rack's folder
(`control`).
"""
