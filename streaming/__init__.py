"""How tokens reach people: relay, SSE, WebSocket, chat."""
