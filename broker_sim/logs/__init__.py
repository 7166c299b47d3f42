"""A replica's log on disk: batches, segments, epochs, checkpoints, retention and compaction, over directories."""
