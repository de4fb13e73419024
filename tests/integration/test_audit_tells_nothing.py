"""Canaries in prompts, answers, passwords and keys, and every place where something is kept of what
was done: the audit log, the admin's log, runs of the housekeeping, log files, error bodies.
"""

from __future__ import annotations

import re
import secrets

import httpx

from tests.ground.seed import PASSWORD
from tests.ground.stack import Stack, TenantAccess
from tests.integration.asking import CHAT, asking, client_of, streaming
from tests.integration.chatting import chatting

SINKS = ("tenants_auditrecord", "django_admin_log", "inference_maintenancerun")


def kept(stack: Stack) -> str:
    tables = {table: stack.store.rows(f"SELECT * FROM {table}") for table in SINKS}  # noqa: S608
    assert tables["tenants_auditrecord"]
    return str(tables)


def signed_in(stack: Stack, tenant: TenantAccess, username: str, password: str) -> httpx.Response:
    with httpx.Client(base_url=stack.url, follow_redirects=False) as browser:
        page = browser.get("/login/").text
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        assert token
        form = {"username": username, "password": password, "csrfmiddlewaretoken": token[1]}
        return browser.post("/login/", data=form, headers={"Referer": stack.url})


async def test_nothing_of_what_is_said_or_signed_in_with(stack: Stack) -> None:
    canary = f"canary{secrets.token_hex(8)}"
    said: list[str] = []
    refusals: list[str] = []
    with client_of(stack) as client:
        answer = client.post(CHAT, json=asking(f"api {canary}")).json()
        said.append(answer["choices"][0]["message"]["content"])
        with streaming(client, text=f"sse {canary}", max_tokens=50) as stream:
            stream.words(2)
        refusals.append(client.post(CHAT, json=asking(f"{canary} " * 9000)).text)
        refusals.append(client.post(CHAT, content=f'{{"messages": "{canary}"'.encode()).text)
        refusals.append(client.post(CHAT, json=asking(canary) | {"temperature": "hot"}).text)
    for key in (f"nhr_{canary}", f"{stack.acme.key[:-1]}x"):
        header = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(headers=header) as stranger:
            refusals.append((await stranger.get(f"{stack.url}/v1/models")).text)
    async with chatting(stack) as socket:
        accepted = await socket.accepted(f"socket {canary}")
        events = await socket.until("finished", generation=accepted["generation"])
        said.append("".join(each.get("text", "") for each in events))
    assert signed_in(stack, stack.acme, stack.acme.username, PASSWORD).status_code == 302
    refusals.append(signed_in(stack, stack.acme, stack.acme.username, canary).text)
    # A password in the field of the name, and one that is somebody's own.
    refused = signed_in(stack, stack.acme, canary, PASSWORD).text
    stack.wait_until_idle()

    told = kept(stack)
    assert told.count("'sign_in'") >= 3
    logs = stack.logs()
    keys = [stack.acme.key.split("_")[3], stack.acme.revoked_key.split("_")[3]]
    for word in (canary, PASSWORD, *said, *keys, stack.acme.session):
        assert word not in told
        assert word not in logs
    for body in refusals:
        assert canary not in body
        assert stack.acme.key not in body
    # A login form shows again what was typed as a name, to whom typed it, and nothing else.
    assert PASSWORD not in refused
