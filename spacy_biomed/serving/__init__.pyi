from .application import create_app
from .limits import ServerLimits
from .server import serve_pipeline

__all__ = ["ServerLimits", "create_app", "serve_pipeline"]
