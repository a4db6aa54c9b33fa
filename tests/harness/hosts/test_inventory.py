"""`hosts.toml`: what it has to say, and that each mistake in it is named."""

from pathlib import Path

import pytest

from harness.errors import HostsFileError
from harness.hosts.inventory import Host, default_model, hosts_for, read_hosts
from harness.security_models import get_model

HOST = (
    '[[host]]\nparty = {}\naddress = "10.0.0.{}"\ndirectory = "/srv/fs"\nproject = "/srv/FS"\nport = 12000\n'
)


def write(path: Path, *texts: str) -> Path:
    (path / "hosts.toml").write_text("\n".join(texts))
    return path / "hosts.toml"


def test_hosts_come_in_the_order_of_their_parties(tmp_path: Path) -> None:
    more = 'ssh_user = "u"\nssh_port = 2222\nreached_at = "203.0.113.7:12001"\nclient_port = 12100\n'
    found = read_hosts(write(tmp_path, HOST.format(1, 7) + more, HOST.format(0, 6)))
    assert found == [
        Host(0, "10.0.0.6", "/srv/fs", "/srv/FS", 12000),
        Host(
            *(1, "10.0.0.7", "/srv/fs", "/srv/FS", 12000, "u", 2222),
            reached_at="203.0.113.7:12001",
            client_port=12100,
        ),
    ]
    assert [host.client_ports for host in found] == [(), (12100, 12101)]
    assert found[1].client_reached == ("10.0.0.7", 12100)
    assert [host.reached for host in found] == [("10.0.0.6", 12000), ("203.0.113.7", 12001)]
    assert (found[0].name, found[1].title) == ("host 10.0.0.6 (party 0)", "Host 10.0.0.7 (party 1)")


def test_a_port_alone_is_reached_at_the_hosts_address() -> None:
    host = Host(0, "a.example", "/d", "/p", 12000, reached_at="443", client_port=1, client_reached_at="444")
    assert (host.reached, host.client_reached) == (("a.example", 443), ("a.example", 444))


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["party = "], "is not TOML"),
        (
            ["hosts = 1"],
            r"missing required field `host` \(it has 'hosts': did you mean host\?\); docs/how-to/hosts.md",
        ),
        (["[[host]]", "party = 0"], r"missing required field `address` at `host\[0\]`"),
        ([HOST.format(0, 1) + "pary = 1"], r"unknown key 'pary' \(did you mean party\?\)"),
        (
            ["[[host]]", "party = 0", "adress = '10.0.0.1'"],
            r"`address` at `host\[0\]` \(it has 'adress': did you mean address\?\)",
        ),
        ([HOST.format(0, 1).replace("12000", '"12000"')], r"expected `int`, got `str` at `host\[0\].port`"),
        ([HOST.format(0, 1).replace("12000", "70000")], "a port is a number from 1 to 65535"),
        ([HOST.format(0, 1).replace('"/srv/fs"', '"fs"')], "directory must be an absolute path"),
        ([HOST.format(0, 1).replace("10.0.0.1", "-oProxyCommand=x")], "address must be a name"),
        ([HOST.format(0, 1) + 'reached_at = "a:b:c"'], "0: reached_at must be address:port"),
        ([HOST.format(0, 1) + 'client_port = 1\nclient_reached_at = "a:b:c"'], "client_reached_at must be"),
        ([HOST.format(0, 1) + "client_reached_at = '443'"], "client_reached_at needs client_port"),
        *(
            ([HOST.format(0, 1) + f"client_port = {port}"], f"other ones than port; got {port}")
            for port in (-1, 11999, 12000, 65535)
        ),
        ([HOST.format(0, 1), HOST.format(0, 2)], "must number its parties 0, 1, 2"),
        ([HOST.format(1, 1)], "must number its parties 0, 1, 2"),
    ],
)
def test_mistakes_are_named(texts: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(HostsFileError, match=said):
        read_hosts(write(tmp_path, *texts))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HostsFileError, match="Cannot read"):
        read_hosts(tmp_path / "none.toml")


def test_a_model_runs_on_the_first_hosts_and_not_on_too_few(tmp_path: Path) -> None:
    three = read_hosts(write(tmp_path, *(HOST.format(i, i) for i in range(3))))
    assert hosts_for(get_model("semi2k"), three, tmp_path) == three[:2]
    assert (default_model(three).name, default_model(three[:2]).name) == ("ring", "semi2k")
    with pytest.raises(HostsFileError, match="has hosts for 3 parties, model rep4-ring has 4"):
        hosts_for(get_model("rep4-ring"), three, tmp_path)
