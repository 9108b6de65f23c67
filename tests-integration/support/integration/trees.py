"""A tree of entities, and what becomes of it.

Lives here: manifests, and acquires. Never: a claim.
"""

from zae_limiter import RateLimitExceeded, SyncRateLimiter, SyncRepository

TREE = """\
namespace: tenant-tree
entities:
  acme:
    metadata: {"seats": 5, "tier": "gold"}
    resources:
      _default_:
        limits:
          rpm: 2/min
  globex: {}
  key-1:
    parent: acme
    cascade: true
    resources:
      gpt-4:
        limits:
          rpm: 10/min burst 20
  key-2:
    parent: acme
"""
MOVED = """\
namespace: tenant-tree
entities:
  acme: {parent: globex}
  globex:
    resources: {_default_: {limits: {rpm: 0/min}}}
  key-1: {parent: globex, cascade: true, resources: {gpt-4: {limits: {rpm: 10/min}}}}
"""
DEEP = """\
namespace: tenant-tree
entities:
  blue: {}
  key-1: {parents: [user-7, team], cascade: true, resources: {gpt-4: {limits: {rpm: 10/min}}}}
  key-2: {parent: team}
  org: {}
  team: {parent: org, cascade: true}
  user-7: {parents: [org, blue]}
"""
TIERS = """\
namespace: tenant-tree
tiers:
  free: {resources: {_default_: {limits: {rpm: 1/min}}}}
  gone: {resources: {_default_: {limits: {rpm: 4/min}}, gpt-4: {limits: {rpm: 5/min}}}}
  team: {resources: {_default_: {limits: {rpm: 6/min}}}}
entities:
  acme: {tier: gone}
  key-1: {parent: acme, cascade: true, tier: free}
  key-2: {parent: acme, tier: gone}
  key-3: {tier: team}
"""
RETIERED = """\
namespace: tenant-tree
tiers:
  free: {resources: {_default_: {limits: {rpm: 3/min}}}}
  gold: {resources: {_default_: {limits: {rpm: 60/min}}, gpt-4: {limits: {rpm: 5/min}}}}
  team: {resources: {gpt-4: {limits: {rpm: 6/min}}}}
entities:
  acme: {tier: gold}
  key-1: {parent: acme, cascade: true, tier: free}
  key-2: {parent: acme}
  key-4: {parent: acme, tier: team}
"""
"""One tier has gone, one is new, one has other limits, one is on another resource; entities have others, or none."""
TURNED = """\
namespace: tenant-tree
entities:
  key-1: {parents: [team, green, user-7]}
  green: {parent: user-7}
  org: {parents: [team, user-7]}
  team: {parent: user-7, cascade: true}
  user-7: {resources: {_default_: {limits: {rpm: 0/min}}}}
"""
"""What was below is above, with a new entity between; two are gone."""


def takes(repository: SyncRepository, entity: str) -> list[str | None]:
    """What becomes of three acquires of one token: taken, or who refused it."""
    found: list[str | None] = []
    for _ in range(3):
        try:
            with SyncRateLimiter(repository).acquire(entity, "gpt-4", {"rpm": 1}):
                found.append("taken")
        except RateLimitExceeded as refusal:
            found.append(refusal.refused_by)
    return found
