"""An application that answers each customer ten times a minute, however many workers serve it."""

from flask import Flask, abort, request

from zae_limiter import Limit, SyncRateLimiter, SyncRepository
from zae_limiter.integrations.flask import RateLimited, init_app

CUSTOMERS = {"key-of-ann": "ann", "key-of-bob": "bob"}  # yours are in a database
LIMITS = [Limit.per_minute("rpm", 10)]


def create_app(limiter: SyncRateLimiter | None = None) -> Flask:
    """Make the application; a test gives it a limiter in memory."""
    app = Flask(__name__)
    init_app(app)
    limiter = limiter or SyncRateLimiter(SyncRepository.open(), default_limits=LIMITS)
    limited = RateLimited(limiter, identity=customer, resource="answers", cost={"rpm": 1})

    @app.get("/answer")
    @limited
    def answer() -> dict[str, int]:
        return {"answer": 42}

    @app.get("/health")
    def health() -> str:
        return "ok"

    return app


def customer() -> str:
    """Return whose key the request has."""
    key = request.headers.get("X-API-Key", "")
    if key not in CUSTOMERS:
        abort(401)
    return CUSTOMERS[key]
