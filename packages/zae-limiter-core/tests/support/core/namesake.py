"""The table of another product that is called zae-limiter.

Lives here: the record of a namespace as it writes it. Never: a claim.
"""

from zae_limiter.operations.values import Item

FOREIGN: Item = {
    "PK": "_/SYSTEM#",
    "SK": "#NAMESPACE#prod",
    "namespace_id": "1DMf7y47lpE",
    "namespace_name": "prod",
    "status": "active",
    "created_at": "2026-11-28T15:46:31Z",
}
TOLD = "it is the table of another product named zae-limiter, whose registry has 'namespace_name': that product may be"
