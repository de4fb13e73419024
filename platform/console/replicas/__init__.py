"""The operators' view of replicas and queues, and what they may do to a replica."""
