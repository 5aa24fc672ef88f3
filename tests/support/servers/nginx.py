"""A private nginx, as a content provider has one: gzip, entity tags, conditional requests, TLS; and its own log."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import attrs

from tests.support.ports import free_port, listens
from tests.support.processes.system import OriginServer
from tests.support.waiting import wait_for

CONFIGURATION = """
daemon off; worker_processes 1; {user} pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
  log_format json escape=json '{{"path":"$uri","status":$status,"sent":$bytes_sent,"agent":"$http_user_agent",'
    '"from":"$http_from","accept":"$http_accept","asked":"$http_if_none_match","since":"$http_if_modified_since",'
    '"coding":"$sent_http_content_encoding","etag":"$sent_http_etag","server_name":"$ssl_server_name",'
    '"resumed":"$ssl_session_reused","connection":"$connection","server":"$server_addr","ended":$msec,'
    '"seconds":$request_time}}';
  access_log {folder}/access.log json;
  types {{ text/html html; text/plain txt; image/png png; }}
  default_type application/octet-stream;
  charset utf-8;
  gzip on; gzip_types text/plain; gzip_min_length 100;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{ listen 127.0.0.1:{port}; root {root}; {more} }}
  {secure}
  {servers}
}}
"""
SECURE = """
  ssl_session_cache shared:sessions:1m; ssl_protocols {protocols};
  server {{ listen 127.0.0.1:{port} ssl; root {root}; ssl_certificate {certificate}; ssl_certificate_key {key}; }}
"""


@attrs.frozen
class Secure:
    """How a TLS port is served.

    :ivar protocols: as nginx names them.
    """

    key: Path
    certificate: Path
    protocols: str = "TLSv1.2 TLSv1.3"


class Nginx(OriginServer):
    """The process; in place of an :class:`OriginServer`.

    :param folder: for its configuration and logs.
    :param more: further lines of its configuration.
    :param servers: further servers.
    """

    def __init__(
        self, root: Path, folder: Path, secure: Secure | None = None, more: str = "", servers: str = ""
    ) -> None:
        self.root, self.log, self.address = root, folder / "access.log", "127.0.0.1"
        folder.mkdir()
        self.port, self.secure_port = free_port(), free_port()
        tls = ""
        if secure is not None:
            files = {"certificate": secure.certificate, "key": secure.key, "root": root}
            tls = SECURE.format(port=self.secure_port, protocols=secure.protocols, **files)
        user = "user root;" if os.geteuid() == 0 else ""
        names = {"folder": folder, "port": self.port, "root": root, "secure": tls, "user": user}
        names |= {"more": more, "servers": servers}
        (folder / "nginx.conf").write_text(CONFIGURATION.format(**names))
        program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        assert program, "nginx is not installed; run 'make system'"
        self.process = subprocess.Popen(
            [program, "-p", str(folder), "-c", str(folder / "nginx.conf")], stderr=subprocess.PIPE, text=True
        )
        wait_for("nginx listens", self._listens)

    def _listens(self) -> bool:
        assert self.process.poll() is None, self.process.stderr and self.process.stderr.read()
        return listens(self.port)

    def secure_url(self, provider: str) -> str:
        """The root URL of a provider over TLS."""
        return f"https://localhost:{self.secure_port}/{provider}/"

    def asked(self, path: str = "") -> list[dict[str, Any]]:
        """The requests for one path, or all."""
        return [request for request in self.requests() if path in ("", request["path"])]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()
