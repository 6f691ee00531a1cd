import json
from pathlib import Path

import pytest


def test_certs_create_prints_the_configs_of_broker_and_clients(yak, tmp_path: Path):
    ran = yak("certs", "create", str(tmp_path / "c"), "--hosts", "a.example,10.0.0.1", "--client", "alice")
    assert ran.code == 0
    assert f"ssl.keystore.location={tmp_path}/c/broker.pem" in ran.out
    assert f"ssl.keystore.location={tmp_path}/c/alice.pem" in ran.out
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["alice.pem", "broker.pem", "ca.key", "ca.pem"]


@pytest.mark.parametrize("hosts", ["a.example,10.0.0.1", "2001:db8::1"])
def test_configs_that_certs_create_prints_start_a_broker(yak, tmp_path: Path, hosts: str):
    made = json.loads(yak("certs", "create", str(tmp_path / "c"), "--hosts", hosts, "-o", "json").out)
    (tmp_path / "broker.properties").write_text("\n".join(made["broker"]))
    args = ("--metadata", "raft", "--properties", str(tmp_path / "broker.properties"), "--dry-run")
    ran = yak("serve", *args)
    assert (ran.code, ran.err) == (0, "")


def test_certs_create_without_a_host_is_refused(yak, tmp_path: Path):
    ran = yak("certs", "create", str(tmp_path / "c"), "--hosts", ",")
    assert (ran.code, "certs-name" in ran.err) == (2, True)


def test_certs_create_refuses_files_that_are_there(yak, tmp_path: Path):
    yak("certs", "create", str(tmp_path / "c"))
    ran = yak("certs", "create", str(tmp_path / "c"))
    assert (ran.code, "certs-exist" in ran.err) == (2, True)
    assert yak("certs", "create", str(tmp_path / "c"), "--force").code == 0


def broker_names(yak, folder: Path) -> list[str]:
    return json.loads(yak("certs", "show", str(folder / "broker.pem"), "-o", "json").out)[0]["names"]


def test_certs_create_adds_a_client_and_prints_a_host_of_the_broker_that_it_keeps(yak, tmp_path: Path):
    yak("certs", "create", str(tmp_path), "--hosts", "x,::1")
    ran = yak("certs", "create", str(tmp_path), "--client", "alice")
    assert ran.code == 0
    assert f"kept {tmp_path}/broker.pem, for x, ::1" in ran.err
    assert "advertised.listeners=SSL://x:9093" in ran.out
    assert yak("certs", "create", str(tmp_path), "--client", "bob", "--hosts", "x,0:0::1").code == 0


def test_certs_create_does_not_ignore_other_hosts_of_a_broker_that_is_there(yak, tmp_path: Path):
    yak("certs", "create", str(tmp_path), "--hosts", "x")
    args = ("certs", "create", str(tmp_path), "--hosts", "y", "--client", "alice")
    ran = yak(*args)
    assert ran.code == 2
    assert f"error[certs-exist]: {tmp_path} has broker.pem already, for x" in ran.err
    assert not (tmp_path / "alice.pem").exists()
    ran = yak(*args, "--force")
    assert ran.code == 0
    assert f"created {tmp_path}/broker.pem" in ran.err
    assert "advertised.listeners=SSL://y:9093" in ran.out
    assert broker_names(yak, tmp_path) == ["y"]


def test_certs_create_with_force_keeps_the_hosts_that_are_not_given(yak, tmp_path: Path):
    yak("certs", "create", str(tmp_path), "--hosts", "x")
    assert "advertised.listeners=SSL://x:9093" in yak("certs", "create", str(tmp_path), "--force").out
    assert broker_names(yak, tmp_path) == ["x"]


def test_certs_create_names_a_folder_that_cannot_be_written(yak, tmp_path: Path):
    (tmp_path / "file").write_text("")
    ran = yak("certs", "create", str(tmp_path / "file" / "c"))
    assert (ran.code, "certs-not-written" in ran.err) == (2, True)


def test_certs_show_has_names_and_dates(yak, tmp_path: Path):
    yak("certs", "create", str(tmp_path / "c"), "--hosts", "a.example", "--days", "9")
    (row,) = json.loads(yak("certs", "show", str(tmp_path / "c" / "broker.pem"), "-o", "json").out)
    assert (row["subject"], row["names"], row["issuer"]) == ("CN=broker,O=YAK", ["a.example"], "CN=YAK CA,O=YAK")
    assert row["not_before"] < row["not_after"]
    printed = yak("certs", "show", str(tmp_path / "c" / "ca.pem")).out
    assert "subject       CN=YAK CA,O=YAK" in printed
    assert "sha256" in printed
