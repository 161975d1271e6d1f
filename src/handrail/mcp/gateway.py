"""One MCP server in front of many. It requires the extra ``handrail[mcp]``.

Serve the executor with ``handrail.mcp.server``, or use the command ``handrail serve``.
"""

from handrail.mcp._gateway.health import with_health, with_metrics
from handrail.mcp._gateway.principals import CallQuota, RulesByPrincipal, limit_principals
from handrail.mcp._gateway.upstreams import UpstreamHealth, Upstreams
from handrail.mcp._server.metrics import CallMetrics

__all__ = [
    "CallMetrics",
    "CallQuota",
    "RulesByPrincipal",
    "UpstreamHealth",
    "Upstreams",
    "limit_principals",
    "with_health",
    "with_metrics",
]
