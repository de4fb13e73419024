"""Prompts, answers and keys never reach a log, not even at DEBUG."""

from __future__ import annotations

import secrets

import httpx

from tests.ground.stack import Stack
from tests.integration.asking import CHAT, asking, client_of, streaming
from tests.integration.chatting import chatting


async def test_canaries(stack: Stack) -> None:
    canary = f"canary{secrets.token_hex(8)}"
    answers: list[str] = []
    with client_of(stack) as client:
        answer = client.post(CHAT, json=asking(f"api {canary}")).json()
        answers.append(answer["choices"][0]["message"]["content"])
        with streaming(client, text=f"sse {canary}", max_tokens=200) as stream:
            stream.words(2)
        client.post(CHAT, json=asking(model=canary))
        client.post(CHAT, content=f'{{"{canary}"'.encode())
        client.post(CHAT, json=asking(f"{canary} " * 9000))
        client.get(f"/v1/models/{canary}")
        client.get("/v1/models", params={"q": canary})
        # In the wrong places.
        for key in (stack.acme.key, stack.globex.other_key):
            client.get(f"/v1/models/{key}")
            client.get("/v1/models", params={"api_key": key})
            client.get(f"/v1/{key}")
            client.get(f"/chat/{key}/")
            client.post(CHAT, json=asking(model=key, api_key=key))
            client.get("/v1/models", headers={"X-API-Key": key})
    for key in (f"nhr_{canary}", stack.acme.revoked_key, stack.closed.key):
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as stranger:
            await stranger.get(f"{stack.url}/v1/models")
    async with chatting(stack) as socket:
        accepted = await socket.accepted(f"socket {canary}")
        await socket.connection.send(f'{{"type": "{canary}"}}')
        events = await socket.until("finished", generation=accepted["generation"])
        answers.append("".join(each.get("text", "") for each in events))
    stack.wait_until_idle()
    logs = stack.logs()
    assert "Replica engine is ready" in logs
    for line in logs.splitlines():
        # An address is what operators look for in a log; what it was asked with is not.
        assert canary not in line.replace(f"/v1/models/{canary}", "")
    secret_words = [*answers, stack.acme.session]
    for tenant in (stack.acme, stack.globex, stack.closed):
        for key in (tenant.key, tenant.other_key, tenant.revoked_key):
            secret_words += [key, key.split("_")[3]]
    secret_words += [row["digest"] for row in stack.store.rows("SELECT digest FROM tenants_apikey")]
    for word in secret_words:
        assert word not in logs
