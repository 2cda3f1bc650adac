"""The profile ``caipe``: tasks in the words of the Platform Engineer (CAIPE), for clients that were built on it."""

from .encode import CaipeEncoder, CaipeFold
from .read import resumed, sent

__all__ = ("CaipeEncoder", "CaipeFold", "resumed", "sent")
