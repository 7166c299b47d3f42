"""The bare protocol, one step at a time: peers without processes, where every packet and every fsync is a step.

Imports ensemble's zab; scripts over the bare protocol and the search may import it.  States leave out what cannot affect behaviour (`canonical`), results of inputs are cached (`turns`), and states share
unchanged parts (`cloning`). Start reading at `cores`, then `node`.
"""
