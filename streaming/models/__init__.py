"""The chat's state, one file a concept."""

from streaming.models.conversation import Conversation
from streaming.models.message import Author, Message

__all__ = ["Author", "Conversation", "Message"]
