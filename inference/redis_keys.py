"""Every key that inference keeps in Redis. Names hold what the server knows, never what a client
sent.
"""

from __future__ import annotations

PREFIX = "nehir"
REPLICAS = f"{PREFIX}:replicas"
# Sorted set: incarnations by when they last told how they are, in Unix seconds, lost ones too.
REPLICAS_SEEN = f"{PREFIX}:replicas-seen"


def log(tenant_id: str, generation_id: str) -> str:
    """Stream: a generation's token log."""
    return f"{PREFIX}:log:{tenant_id}:{generation_id}"


def lease(generation_id: str) -> str:
    """String: who may append to the generation's log, as `leases` says."""
    return f"{PREFIX}:lease:{generation_id}"


def request(generation_id: str) -> str:
    """String: the queued request, until a replica takes it."""
    return f"{PREFIX}:request:{generation_id}"


def queue(release_id: str) -> str:
    """Sorted set: generation ids waiting for a release, by time of arrival in microseconds."""
    return f"{PREFIX}:queue:{release_id}"


def queue_tenants(release_id: str) -> str:
    """Hash: how many of each tenant wait."""
    return f"{PREFIX}:queue-tenants:{release_id}"


def queue_sizes(release_id: str) -> str:
    """Hash: of each that waits its prompt tokens, most tokens to make, weight, class and tenant."""
    return f"{PREFIX}:queue-sizes:{release_id}"


def share(release_id: str) -> str:
    """Hash, and what the names begin with of all that fair sharing keeps: lua/fair_share.lua."""
    return f"{PREFIX}:share:{release_id}"


def charged(generation_id: str) -> str:
    """String with expiry: how many of a generation's tokens its tenant was charged for."""
    return f"{PREFIX}:charged:{generation_id}"


def queue_bell(release_id: str) -> str:
    """List: one element for each arrival, that wakes a waiting replica."""
    return f"{PREFIX}:queue-bell:{release_id}"


def host_bell(incarnation: str) -> str:
    """List: wakes this replica, for which another has left what waits."""
    return f"{PREFIX}:host-bell:{incarnation}"


def prefixes(incarnation: str) -> str:
    """Sorted set with expiry: marks of the prompts that the replica has served lately."""
    return f"{PREFIX}:prefixes:{incarnation}"


def replica(incarnation: str) -> str:
    """String with expiry: the replica's record; its absence means that the replica is lost."""
    return f"{PREFIX}:replica:{incarnation}"


def replica_seen(incarnation: str) -> str:
    """String with expiry: the replica's record as it was last seen, which outlives the replica."""
    return f"{PREFIX}:replica-seen:{incarnation}"


def replica_rates(incarnation: str) -> str:
    """List: tokens a second that the replica made in each of the last spans, the oldest first."""
    return f"{PREFIX}:replica-rates:{incarnation}"


def replica_latencies(incarnation: str) -> str:
    """List: of each of these spans the p95 between tokens, its objective and how many might run."""
    return f"{PREFIX}:replica-latencies:{incarnation}"


def running(incarnation: str) -> str:
    """Hash: generation id to queued request, of what the replica runs and has not settled."""
    return f"{PREFIX}:running:{incarnation}"


def control(incarnation: str) -> str:
    """List: messages to the replica."""
    return f"{PREFIX}:control:{incarnation}"


def reader_wake(reader: str) -> str:
    """Stream: wakes one web process's blocking read when it follows another log."""
    return f"{PREFIX}:wake:{reader}"


def outputs(release_id: str) -> str:
    """List: how many tokens the release's recent answers had, the newest first."""
    return f"{PREFIX}:outputs:{release_id}"


def corrections(release_id: str) -> str:
    """Hash: by class, the logarithm of the factor on the p90 of estimated waits."""
    return f"{PREFIX}:corrections:{release_id}"


def connections(kind: str) -> str:
    """What the keys of one kind of connections begin with: slots, and the queue for them."""
    return f"{PREFIX}:connections:{kind}"
