"""One Nehir a state folder and port; everything else is refused in one sentence."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from config.supervisor import instance, preparation


def test_a_held_folder_is_refused_and_its_holder_named(tmp_path: Path) -> None:
    with instance.hold(tmp_path, "http://127.0.0.1:8000"):
        assert "http://127.0.0.1:8000" in instance.running_instance(tmp_path)
        assert instance.running_url(tmp_path) == "http://127.0.0.1:8000"
        with pytest.raises(instance.AlreadyRunning, match="NEHIR_VAR and NEHIR_PORT"):
            instance.hold(tmp_path, "http://127.0.0.1:8001")
    assert instance.running_instance(tmp_path) == ""
    instance.hold(tmp_path, "http://127.0.0.1:8001").close()


def test_two_folders_run_side_by_side(tmp_path: Path) -> None:
    with instance.hold(tmp_path / "one", "a"), instance.hold(tmp_path / "two", "b"):
        assert instance.running_url(tmp_path / "two") == "b"


def test_a_new_folder_is_stamped_and_accepted_again(tmp_path: Path) -> None:
    instance.require_layout(tmp_path)
    assert (tmp_path / "version").read_text() == f"{instance.LAYOUT}\n"
    instance.require_layout(tmp_path)


@pytest.mark.parametrize("written", [str(instance.LAYOUT + 1), "x"])
def test_a_newer_folder_is_refused_and_left_as_it_is(tmp_path: Path, written: str) -> None:
    (tmp_path / "version").write_text(written)
    with pytest.raises(instance.Unusable, match="newer Nehir"):
        instance.require_layout(tmp_path)
    assert (tmp_path / "version").read_text() == written


def test_a_busy_port_is_named_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(instance.Unusable, match=rf"Port {port} .* NEHIR_PORT="):
            instance.require_port("127.0.0.1", port)
    instance.require_port("127.0.0.1", port)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(instance.Unusable, match="NEHIR_HOST"):
        instance.require_port("192.0.2.1", 8000)


def test_the_socket_folder_is_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o755)
    preparation.make_socket_folder(folder, var=tmp_path)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_an_open_socket_folder_elsewhere_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(instance.Unusable, match="open to other users"):
        preparation.make_socket_folder(folder, var=tmp_path / "var")


def test_a_planted_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(instance.Unusable, match="not a folder of this user"):
        preparation.make_socket_folder(tmp_path / "link", var=tmp_path / "var")
