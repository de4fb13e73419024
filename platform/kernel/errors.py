"""The one error tree.

PlatformError
├── BadRequest (400)
│   ├── ContextLengthExceeded (400)
│   └── GrammarFailed (400)
├── Unauthenticated (401)
├── PermissionDenied (403)
├── NotFound (404)
│   └── ModelNotFound (404)
├── MethodNotAllowed (405)
├── NotAcceptable (406)
├── Conflict (409)
├── PreconditionFailed (412)
├── BodyTooLarge (413)
├── UnsupportedMediaType (415)
├── PreconditionRequired (428)
├── QueueFull (429, retryable)
├── RateLimited (429, retryable)
├── InternalError (500)
└── Unavailable (503, retryable)
    ├── EngineLost (503, retryable)
    └── GenerationFailed (503)

Errors of libraries and engines are translated into this tree where they enter (adapters, views).
One renderer each turns it into HTTP, SSE and WebSocket: `web.errors`, `streaming.sse`,
`streaming.events`.

"""

from __future__ import annotations


class PlatformError(Exception):
    """Base of every error that a user may see.

    message: one sentence for people, translated by the caller where a person reads it
    code: stable, machine-readable, in OpenAI's vocabulary where it has a word
    http_status: status of an HTTP reply that carries it
    retryable: whether the same request may succeed later
    param: the request field at fault, if one is
    retry_after_s: seconds after which to try again, if known
    """

    code = "internal_error"
    http_status = 500
    retryable = False

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.param = param
        self.retry_after_s = retry_after_s


class BadRequest(PlatformError):
    code = "invalid_request"
    http_status = 400


class ContextLengthExceeded(BadRequest):
    code = "context_length_exceeded"


class GrammarFailed(BadRequest):
    """The answer could not be kept to the schema that was asked for."""

    code = "grammar_failed"


class Unauthenticated(PlatformError):
    code = "invalid_api_key"
    http_status = 401


class PermissionDenied(PlatformError):
    code = "permission_denied"
    http_status = 403


class NotFound(PlatformError):
    code = "not_found"
    http_status = 404


class ModelNotFound(NotFound):
    code = "model_not_found"


class MethodNotAllowed(PlatformError):
    code = "method_not_allowed"
    http_status = 405


class NotAcceptable(PlatformError):
    code = "not_acceptable"
    http_status = 406


class Conflict(PlatformError):
    code = "conflict"
    http_status = 409


class PreconditionFailed(PlatformError):
    """What was to be changed is no longer what the client saw."""

    code = "precondition_failed"
    http_status = 412


class BodyTooLarge(PlatformError):
    code = "request_too_large"
    http_status = 413


class UnsupportedMediaType(PlatformError):
    code = "unsupported_media_type"
    http_status = 415


class PreconditionRequired(PlatformError):
    code = "precondition_required"
    http_status = 428


class QueueFull(PlatformError):
    code = "queue_full"
    http_status = 429
    retryable = True


class RateLimited(PlatformError):
    code = "rate_limited"
    http_status = 429
    retryable = True


class InternalError(PlatformError):
    """A fault of ours; the message never carries details of it."""


class Unavailable(PlatformError):
    code = "service_unavailable"
    http_status = 503
    retryable = True


class EngineLost(Unavailable):
    code = "engine_lost"


class GenerationFailed(Unavailable):
    code = "generation_failed"
    retryable = False
