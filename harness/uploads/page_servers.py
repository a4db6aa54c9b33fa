"""Configurations of nginx for a page and for the parties' uploads from it, by docs/how-to/page.md."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from fairshares.harness.errors import ShareError
from fairshares.harness.uploads.page import Site, content_policy
from fairshares.harness.uploads.task import CERTIFICATE, URLS, Task

_PATH = re.compile(r"/([A-Za-z0-9._~-]+/)*")
_HEAD = """server {{
    listen {port} ssl;
    server_name {host};
    ssl_certificate     /etc/ssl/certs/{certificate}.pem;
    ssl_certificate_key /etc/ssl/private/{certificate}.key;
    ssl_protocols       TLSv1.3;
"""
_PAGE_SERVER = """# The page of task {task}.
{head}    server_tokens off;
    access_log    off;                     # or it keeps visitors' addresses
    default_type  application/octet-stream;
    types {{ text/html html; text/css css; text/javascript js; application/json json; text/plain txt; }}
    gzip on;
    gzip_types text/css text/javascript application/json text/plain;

    add_header Content-Security-Policy "{policy}; frame-ancestors 'none'" always;
    add_header Cross-Origin-Opener-Policy "same-origin" always;
    add_header Referrer-Policy "no-referrer" always;
    add_header X-Content-Type-Options "nosniff" always;
    add_header Cache-Control "no-cache" always;

    location / {{ return 404; }}

    location ~ "^{path}(index\\.html|page\\.js|page\\.css|LICENSES\\.txt|task\\.json|SHA256SUMS)?$" {{
        limit_except GET {{ deny all; }}
        alias /srv/page/$1;                # the files of `public`
        index index.html;
    }}
}}
"""
_UPLOAD_SERVER = """# Uploads of party {party}, {name}, for task {task}.
limit_req_zone $binary_remote_addr zone={zone}:10m rate=60r/m;

{head}{certificates}    server_tokens off;
    access_log    off;                     # or it keeps addresses and names of uploads
    client_max_body_size  {size};
    client_body_timeout   30s;
    client_body_temp_path /srv/uploads/partial;

    location / {{ return 404; }}

    location ~ "^{path}(?<upload>[0-9a-f]{{64}})\\.share$" {{
        if ($http_origin !~ "^({origin})?$") {{ return 403; }}  # of other pages
        add_header Access-Control-Allow-Origin  "{plain_origin}" always;
        add_header Access-Control-Allow-Methods "PUT" always;
        add_header Access-Control-Allow-Headers "Content-Type, If-None-Match" always;
        add_header Access-Control-Max-Age       "600" always;
{credentials}        add_header Vary "Origin" always;
        if ($request_method = OPTIONS) {{ return 204; }}       # a browser asks before it sends
        if ($request_method != PUT)    {{ return 405; }}
{admission}        if ($content_length != {size}) {{ return 411; }}
        limit_req        zone={zone} burst=20 nodelay;
        limit_req_status 429;
{name_of_file}        root        /srv/uploads;
        dav_methods PUT;
        dav_access  user:rw group:r;
    }}
}}
"""
_INVITED = """        if (!-f /srv/uploads/invited/$upload) {{ return 403; }}  # no invitation, or revoked
        if (-f /srv/uploads{path}$upload.share) {{ return 409; }}  # it was used
"""
_CERTIFIED = "        if ($ssl_client_verify != SUCCESS) { return 403; }\n"
_CERTIFICATES = """    ssl_client_certificate /etc/ssl/certs/clients.pem;     # whom you let take part
    ssl_verify_client optional;            # a browser's first question comes without
"""
_CREDENTIALS = '        add_header Access-Control-Allow-Credentials "true" always;\n'
_NEW_NAME = "        rewrite     ^ {path}$request_id.share break;  # a new name for each request\n"


@dataclass(frozen=True)
class UploadAddress:
    """The address at which a party's server takes uploads."""

    host: str
    port: int
    path: str  # the path from the first slash to the last


def page_server(task: Task, site: Site) -> str:
    """Return nginx's configuration for the page of a task."""
    policy = content_policy(task)
    path = re.escape(site.path)
    head = _HEAD.format(port=site.port, host=site.host, certificate="page")
    return _PAGE_SERVER.format(task=task.name[:16], head=head, policy=policy, path=path)


def upload_server(task: Task, party: int, site: Site) -> str | None:
    """Return nginx's configuration for a party's uploads from a page; None for a party without a web server.

    Guarantees: the server takes uploads of exactly the right size, of no page but this one's, and stores each
    under a new name; with one-time links it stores one upload for each that is listed as invited.
    [test: tests/commands/test_page_servers.py]

    Raises:
        ShareError: The party's address has signs that would mean something else to nginx.
    """
    address = _address_of(task, party)
    if address is None:
        return None
    path = re.escape(address.path)
    if task.admission == URLS:
        admission = _INVITED.format(path=address.path)
        name_of_file = ""
    else:
        admission = _CERTIFIED if task.admission == CERTIFICATE else ""
        name_of_file = _NEW_NAME.format(path=address.path)
    shows_certificates = task.admission == CERTIFICATE
    return _UPLOAD_SERVER.format(
        party=party,
        name=re.sub(r"[^\w .-]", "", task.parties[party].name),
        task=task.name[:16],
        zone=f"uploads_{task.name[:16]}_{party}",
        head=_HEAD.format(port=address.port, host=address.host, certificate="uploads"),
        path=path,
        size=task.envelope_bytes(party),
        origin=re.escape(site.origin),
        plain_origin=site.origin,
        admission=admission,
        name_of_file=name_of_file,
        certificates=_CERTIFICATES if shows_certificates else "",
        credentials=_CREDENTIALS if shows_certificates else "",
    )


def _address_of(task: Task, party: int) -> UploadAddress | None:
    address = task.parties[party].address
    parts = urlsplit(address)
    if parts.scheme != "https":
        return None
    if not _PATH.fullmatch(parts.path) or not re.fullmatch(r"[A-Za-z0-9.:\[\]-]+", parts.netloc):
        raise ShareError(
            f"The address of party {party}, {address}, has signs that nginx would take otherwise; make its "
            "keys with a plainer one, as https://uploads.example.org/2027/ is."
        )
    return UploadAddress(parts.hostname or "", parts.port or 443, parts.path)
