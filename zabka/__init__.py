"""zabka: a Kafka control plane on a ZooKeeper ensemble, which you can break, watch, rewind and measure.

The public interface consists of `zabka.testing` (fixtures for tests), `zabka.ensemble.client` (ZooKeeper clients) and
the command `zabka`, also available as `python -m zabka`. Everything else can change between versions.

Five packages (`api`, `broker_sim`, `compose`, `controller`, `ensemble`) have their folders at the top level of the
repository; this folder has a symbolic link to each.  Import them as `zabka.api` and so on: an import by the bare name
would load a second copy.
"""
