"""The public door for a pack that runs other programs on addresses which users name. It loads an HTTP client."""

from headgate.outward.proxy import OutwardProxy, outward_proxy

__all__ = ["OutwardProxy", "outward_proxy"]
