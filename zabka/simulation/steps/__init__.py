"""The bare ZAB protocol, one step at a time: peers without processes, where every packet and every fsync is a step.

States omit what cannot affect behaviour (`canonical`), results of inputs are cached (`transitions`), and states share
unchanged parts (`cloning`).  `rules` compares each packet with its sender's disk.  `bare_file_ensemble` uses the real
storage code, with logs and snapshots in directories.

Builds on ensemble's zab and txnlog, and on no other package of simulation; `scenarios`, `search` and tests import it.
To learn the code, begin with `bare_ensemble`, then `node`.
"""
