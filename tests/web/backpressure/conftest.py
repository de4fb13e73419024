"""Servers for the tests of this folder."""

from __future__ import annotations

import datetime
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.web.backpressure.served import PATIENCE_S, Served, listening_socket, start_process

Serve = Callable[..., Served]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[list[Served]]:
    servers: list[Served] = []
    yield servers
    for server in servers:
        server.process.kill()
        server.process.wait()
        sys.stdout.write(server.printed())


@pytest.fixture
def serve(running: list[Served], tmp_path: Path) -> Serve:
    """serve("--high-water", "4096", …) -> a server on an inherited socket."""

    def start(*options: str) -> Served:
        output = tmp_path / f"server-{len(running)}.log"
        with listening_socket() as sock:
            number = sock.fileno()
            arguments = ("--fd", str(number), *options)
            process = start_process(*arguments, output=output, pass_fds=(number,))
            running.append(Served(process, sock.getsockname()[1], output))
        return running[-1]

    return start


@pytest.fixture
def serve_at(running: list[Served], tmp_path: Path) -> Serve:
    """serve_at("tcp:{port}:…", …) -> a server that opened its socket itself."""

    def start(endpoint: str, *options: str, tls: ssl.SSLContext | None = None) -> Served:
        with listening_socket() as sock:
            port = sock.getsockname()[1]
        output = tmp_path / f"server-{len(running)}.log"
        process = start_process("-e", endpoint.format(port=port), *options, output=output)
        running.append(Served(process, port, output, tls=tls))
        wait_for_port(running[-1])
        return running[-1]

    return start


@pytest.fixture
def serve_tls(serve_at: Serve, certificate: Path) -> Serve:
    """As `serve`, with TLS."""
    context = ssl.create_default_context(cafile=str(certificate))
    where = f"ssl:{{port}}:interface=127.0.0.1:privateKey={certificate}:certKey={certificate}"
    return lambda *options: serve_at(where, *options, tls=context)


def wait_for_port(server: Served) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            server.socket().close()
        except ConnectionRefusedError:
            assert server.process.poll() is None, server.printed()
            assert time.monotonic() < deadline, "the server does not listen"
            time.sleep(0.05)
        else:
            return


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a key and its own certificate for localhost."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    today = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    certified = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(today - day)
        .not_valid_after(today + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "localhost.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file.write_bytes(private + certified.public_bytes(serialization.Encoding.PEM))
    return file
