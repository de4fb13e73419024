"""OpenAI's wire format: chat completions and models, over HTTP and SSE."""
