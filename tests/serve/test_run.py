"""``polyseme serve`` as a person starts and stops it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tests.processes import run_command

from polyseme.api import train
from polyseme.errors import FormatError, OptionError
from polyseme.search import build_index
from polyseme.serve.library import Library
from polyseme.serve.listen import FIRST_PORT, check_host, listening_socket, serve, shown_hosts

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "polyseme", "serve", *map(str, arguments)]


def test_it_says_what_is_loaded_and_where_the_page_is_and_stops_on_ctrl_c(shelf: Path) -> None:
    started = subprocess.Popen(
        command(shelf / "words", shelf / "corpus"), stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    try:
        assert started.stderr
        lines = []
        while not lines or "Ctrl-C" not in lines[-1]:
            line = started.stderr.readline()
            assert line, lines
            lines.append(line)
        assert re.match(r"words: vectors \(.*60 words.*\) from .*words$", lines[0])
        assert lines[1].startswith("corpus: corpus (")
        page = re.search(r"page: (http://127\.0\.0\.1:\d+/)$", lines[2])
        assert page
        answer = httpx.get(f"{page[1]}api/library", trust_env=False).json()
        assert [item["name"] for item in answer["items"]] == ["words", "corpus"]
        started.send_signal(signal.SIGINT)
        assert started.wait(20) in (0, 130)
        assert "Traceback" not in started.stderr.read()
    finally:
        started.kill()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{shelf}/words", "--host", "0.0.0.0"], "choose a token"),
        (["{shelf}/words", "--host", "0.0.0.0", "--token", "short"], "at least 8 characters"),
        (["{shelf}/words", "--port", "{taken}"], "choose another with --port"),
        (["{shelf}/nothing"], "does not exist"),
        (["{shelf}/words", "--host", "1.2.3.4.5", "--token", "long-enough"], "neither an address nor the name"),
        (["{shelf}/words", "--host", "a..b", "--token", "long-enough"], "neither an address nor the name"),
        (["{shelf}/words", "--host", "", "--token", "long-enough"], "neither an address nor the name"),
        (["{shelf}/words", "--host", "192.0.2.1", "--token", "long-enough"], "not an address of this machine"),
        ([], "PATH..."),
    ],
)
def test_what_cannot_be_served_is_one_line(shelf: Path, arguments: list[str], message: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        filled = [a.format(shelf=shelf, taken=taken.getsockname()[1]) for a in arguments]
        done = run_command("serve", *filled, text=True)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_missing_extra_names_the_install_that_adds_it(shelf: Path, tmp_path: Path) -> None:
    (tmp_path / "fastapi.py").write_text("raise ImportError('not installed')\n")
    hidden = {**ENVIRONMENT, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ENVIRONMENT['PYTHONPATH']}"}
    done = subprocess.run(command(shelf / "words"), capture_output=True, text=True, env=hidden, timeout=60)
    assert done.returncode == 1
    assert "pip install 'polyseme[serve]'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8")
def test_without_a_port_the_next_free_one_is_taken() -> None:
    own = f"127.77.{os.getpid() >> 8 & 255}.{os.getpid() & 255 or 1}"  # where nobody else listens
    with listening_socket(own, None) as first, listening_socket(own, None) as second:
        assert [listener.getsockname()[1] for listener in (first, second)] == [FIRST_PORT, FIRST_PORT + 1]


def test_this_machine_needs_no_token_and_others_do() -> None:
    for host in ("127.0.0.1", "localhost", "::1"):
        check_host(host, None)
    check_host("0.0.0.0", "long-enough-token")
    assert shown_hosts("::1") == ["[::1]"]
    with pytest.raises(OptionError, match="token"):
        check_host("192.168.1.5", None)
    with pytest.raises(OptionError, match="ASCII"):
        check_host("127.0.0.1", "有空 格的令牌啊")


def test_other_machines_are_told_the_name_and_the_address_of_this_one() -> None:
    name, *addresses = shown_hosts("0.0.0.0")
    assert name == socket.gethostname()
    for address in addresses:  # none without a network
        assert address != "0.0.0.0"
        listening_socket(address, 0).close()  # it is this machine's


def test_an_index_uses_the_model_that_is_served_beside_it(
    shelf: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train("elmo", shelf / "corpus", out=tmp_path / "elmo", size="tiny", epochs=1, threads=1)
    build_index(tmp_path / "elmo", shelf / "corpus", tmp_path / "index", dim=8)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elmo")
    library = Library.open([tmp_path / "index", link])
    assert library.items["index"].thing.encoder is library.items["elmo"].thing
    train("elmo", shelf / "corpus", out=tmp_path / "elmo", size="tiny", epochs=1, threads=1, seed=2, force=True)
    library = Library.open([tmp_path / "index", link])  # made with another: it says so, and the rest is served
    assert "retrained" in caplog.text
    with pytest.raises(FormatError, match="retrained"):
        _ = library.items["index"].thing.encoder


def test_the_token_in_the_page_s_address_is_escaped(monkeypatch: pytest.MonkeyPatch, shelf: Path) -> None:
    said: list[str] = []
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: None)
    monkeypatch.setattr("polyseme.serve.listen.one_thread_each", lambda: None)
    serve((str(shelf / "corpus"),), port=0, token="100%sure#1", say=said.append)
    assert any(line.endswith("/#token=100%25sure%231") for line in said)


def test_a_server_of_word_vectors_starts_without_torch(tmp_path: Path) -> None:
    (tmp_path / "small.vec").write_text("2 2\na 1 0\nb 0 1\n")
    code = (
        "import sys; from polyseme.serve.app import create_app; from polyseme.serve.library import Library\n"
        f"create_app(Library.open([{str(tmp_path / 'small.vec')!r}])); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
