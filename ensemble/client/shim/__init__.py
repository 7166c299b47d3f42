"""What `ensemble.client.kazoo` is made of.  A shell: threads, an event loop, and kazoo's own classes."""
