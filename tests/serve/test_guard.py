"""Access control: who may send requests, how many, and which security headers a browser gets."""

from __future__ import annotations

import contextlib
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from polyseme.serve.app import create_app
from polyseme.serve.guard import Limits
from polyseme.serve.library import Library

TOKEN = "a-long-enough-token"


def raw(address: str, request: bytes) -> bytes:
    """Send raw bytes and return the answer."""
    where = urlsplit(address)
    assert where.hostname
    with socket.create_connection((where.hostname, where.port or 80), timeout=20) as connection:
        connection.sendall(request)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
            if b"}" in piece:
                break
    return answer


OTHER_HOSTS = [
    "evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "", "[::1]evil", "[::1",
    "[::1]:80:80", "127.0.0.1:80\tx", "127.0.0.1:80 x", "127.0.0.1@evil", "evil@127.0.0.1", "127.0.0.1:x",
    "127.0.0.1:", "127.0.0.1:123456", "127.0.0.1/evil", "127.0.0.1,evil", "127.0.0.1;x", "localhost\u00e9",
]  # fmt: skip


@pytest.mark.parametrize("host", OTHER_HOSTS)
def test_another_host_name_is_refused(address: str, host: str) -> None:
    answer = raw(address, f"GET /api/library HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("latin-1"))
    assert b" 421 " in answer.split(b"\r\n")[0]
    assert b"wrong_host" in answer


@pytest.mark.parametrize("name", ["Host", "Origin", "Authorization"])
def test_a_header_that_comes_twice_is_refused(address: str, name: str) -> None:
    host = address.removeprefix("http://")
    value = host if name == "Host" else address
    twice = f"{name}: {value}\r\n{name.upper()}: {value}\r\n"
    own = "" if name == "Host" else f"Host: {host}\r\n"
    answer = raw(address, f"GET /api/library HTTP/1.1\r\n{own}{twice}\r\n".encode())
    assert b" 400 " in answer.split(b"\r\n")[0]


def test_a_server_for_other_machines_has_any_name_but_not_any_header(library: Library, serving: Any) -> None:
    with serving(create_app(library, token=TOKEN, hosts=None)) as address:
        for host, status in {"words.example.org:80": b" 200 ", "[::1]evil": b" 421 ", "a b": b" 421 "}.items():
            answer = raw(address, f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            assert status in answer.split(b"\r\n")[0]


def test_the_address_of_a_proxy_is_a_host_and_an_origin_of_its_own(library: Library, serving: Any) -> None:
    app = create_app(library, public_url="https://words.example.org")
    with serving(app) as address, httpx.Client(base_url=address, trust_env=False) as client:

        def status(host: str, origin: str) -> int:
            return client.get("/api/library", headers={"Host": host, "Origin": origin}).status_code

        assert status("words.example.org", "https://words.example.org") == 200
        assert status("words.example.org", "http://words.example.org:443") == 403
        assert status("words.example.org", "https://words.example.org.evil") == 403
        assert status("other.example.org", "https://words.example.org") == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:8617"])
def test_the_names_of_this_machine_are_answered(client: httpx.Client, host: str) -> None:
    assert client.get("/api/library", headers={"Host": host}).status_code == 200


def test_other_sites_are_refused_and_none_is_let_in_by_cors(client: httpx.Client) -> None:
    own_name = str(client.base_url).removeprefix("http://").rstrip("/")
    others = ("https://evil.example", "null", "http://[", "http://[::1", "", f"https://{own_name}", own_name)
    for origin in (*others, f"http://{own_name}/x", f"http://{own_name}\tx", "http://127.0.0.1:1"):
        response = client.get("/api/library", headers={"Origin": origin})
        assert response.status_code == 403
        assert response.json()["error"]["type"] == "wrong_origin"
    own = client.get("/api/library", headers={"Origin": str(client.base_url).rstrip("/")})
    assert own.status_code == 200
    assert not any(name.startswith("access-control") for name in own.headers)


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/api/library", "/nothing"])
def test_every_answer_tells_the_browser_to_stay_here(client: httpx.Client, path: str) -> None:
    headers = client.get(path).headers
    assert headers["content-security-policy"].startswith("default-src 'self'")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_with_a_token_only_the_page_is_open(library: Library, serving: Any) -> None:
    with (
        serving(create_app(library, token=TOKEN)) as address,
        httpx.Client(base_url=address, trust_env=False) as client,
    ):
        assert client.get("/").status_code == client.get("/page/main.js").status_code == 200
        for path in ("/api/library", "/openapi.json", "/v1/models", "/page/../api/library"):
            assert client.get(path).status_code == 401
        for wrong in (TOKEN, f"Bearer {TOKEN}x", "Bearer", f"Basic {TOKEN}", "Bearer é".encode()):
            refused = client.get("/api/library", headers={"Authorization": wrong})
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
        assert client.get("/api/library", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_a_large_body_is_refused_declared_or_not(client: httpx.Client) -> None:
    large = b"x" * (1 << 20) + b"x"
    assert client.post("/v1/embeddings", content=large).status_code == 413
    pieces = (b"x" * 65536 for _ in range(40))
    assert client.post("/v1/embeddings", content=pieces).status_code == 413


@pytest.mark.parametrize("length", ["99999999999999999999", "1000000000000"])
def test_a_lying_length_is_refused_before_the_body_comes(address: str, length: str) -> None:
    request = f"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n"
    first = raw(address, request.encode()).split(b"\r\n")[0]
    assert b" 413 " in first or b" 400 " in first


def test_a_body_that_does_not_come_is_given_up(library: Library, serving: Any) -> None:
    with serving(create_app(library, limits=Limits(body_seconds=0.2))) as address:
        answer = raw(address, b"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\n{")
    assert b" 408 " in answer.split(b"\r\n")[0]


@pytest.mark.parametrize("line", [b"X-%d: " % 7 + b"a" * 2000 + b"\r\n", b"a" * 2000])
def test_headers_without_end_are_cut_off(address: str, line: bytes) -> None:
    where = urlsplit(address)
    assert where.hostname
    with socket.create_connection((where.hostname, where.port or 80), timeout=20) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ")
        with pytest.raises(OSError, match=r"reset|Broken pipe"):
            for _ in range(100_000):
                connection.sendall(line)


def test_a_head_that_does_not_come_is_given_up(library: Library, serving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyseme.serve.limits.HEAD_SECONDS", 0.2)
    with serving(create_app(library)) as address:
        for start in (b"", b"GET / HTTP/1.1\r\nHost: 127."):
            where = urlsplit(address)
            with socket.create_connection((str(where.hostname), where.port or 80), timeout=20) as connection:
                connection.sendall(start)
                with contextlib.suppress(ConnectionResetError):
                    assert connection.recv(100) == b""


@pytest.mark.parametrize(
    "path",
    [
        "/page/../app.py", "/page/..%2fapp.py", "/page/%2e%2e/app.py", "/page//etc/passwd", "/page/....//app.py",
        "/page/..%5c..%5capp.py", "/page/%00", "/page/views/../../app.py", "/page/", "/page/views", "/etc/passwd",
        "/api/library/..%2f..%2fetc%2fpasswd", "/api/library/%2fetc%2fpasswd",
    ],
)  # fmt: skip
def test_no_path_leads_to_a_file_of_the_machine(address: str, path: str) -> None:
    answer = raw(address, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    assert b" 404 " in answer.split(b"\r\n")[0]
    assert b"import" not in answer
    assert b"root:" not in answer


def test_the_page_gets_its_errors_as_answers_and_others_as_errors(client: httpx.Client) -> None:
    question = {"model": "words", "word": "不识"}
    assert client.get("/api/neighbours", params=question).status_code == 404
    page = client.get("/api/neighbours", params=question, headers={"X-Polyseme-Page": "1"})
    assert (page.status_code, page.headers["x-polyseme-status"]) == (200, "404")
    assert "error" in page.json()
