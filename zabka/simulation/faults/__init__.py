"""Faults that are drawn: a nemesis, what it does to nodes, links, brokers and disks, and operators at work.

Stands on `world`; seeds may import it, and tests.  A fault is a function that takes the `Nemesis`, does harm, and says
how to undo it; the table in `chaos` (or one given to it, as in `disk_faults`) makes it one that seeds draw.  Begin with
`nemesis`, then `chaos`.

Of another kind are `acts`, which a search makes runs of: each a record of a few words that says what befalls whom, by
the part that somebody plays (`roles`).  What acts do is in `deeds`, `broker_deeds` and `disk_deeds`.
"""
