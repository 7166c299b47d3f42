"""What a peer keeps on disk, in ZooKeeper's formats: transaction log, snapshots, epoch files, and recovery."""
