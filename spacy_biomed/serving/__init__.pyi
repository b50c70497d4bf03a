from .batching import ServerLimits
from .server import create_app, serve_pipeline

__all__ = ["ServerLimits", "create_app", "serve_pipeline"]
