"""The bare protocol, one step at a time: peers without processes, where every packet and every fsync is a step.

Stands on ensemble's zab and on `disks`, `network.wire` and `judges.rules`; scripts over cores, and search, may import
it.  What can make no difference is left out of a state (`canonical`), turns are remembered (`turns`), and states are
shared (`cloning`).  Begin with `cores`, then `node`.
"""
