"""What nobody else may read is taken out, however it is written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.checks.redact import Redactor

SECRET = "hunter2-xyzzy"
KEY = b"k" * 32
REDACTOR = Redactor(KEY, ["R58M4711ABC"])

PRIVATE = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nhunter2-xyzzy\n"
    "-----END OPENSSH PRIVATE KEY-----\n"
)


@pytest.mark.parametrize(
    "text",
    [
        f"password: {SECRET}",
        f"  switch_password: '{SECRET}' # of sw1",
        f'{{"enable_secret": "{SECRET}", "a": 1}}',
        f"SWITCH_PASSWORD={SECRET} ansible-playbook site.yml",
        f"export WANDB_API_KEY={SECRET};",
        f"mpirun -x HF_TOKEN={SECRET} -n 4 python train.py",
        f"fetch --token {SECRET} --verbose",
        f"curl --password={SECRET}",
        f"the password is {SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"https://ann:{SECRET}@mirror.example.org/termux",
        f"snmp-server community {SECRET} ro".replace("community ", "community: "),
        f"snmp: {{community: {SECRET}}}",
        PRIVATE,
        PRIVATE[:80] + SECRET,
        f"$ANSIBLE_VAULT;1.1;AES256\n{SECRET}\n{SECRET}\n",
        f"ssh-ed25519 AAAAC3Nza{SECRET.replace('-', '')} ann@rack",
        f"passphrase = {SECRET}",
        f"credentials: {SECRET}",
    ],
)
def test_a_secret_is_gone(text: str) -> None:
    said = REDACTOR.text(text)
    assert SECRET not in said
    assert SECRET.replace("-", "") not in said
    assert "removed" in said


@pytest.mark.parametrize(
    "text",
    [
        "phone007: free disk is 12 MiB, needs 1024 MiB",
        "iteration 7 of 80, loss 0.25, 512 tokens a second",
        "2026-11-29T12:34:56 10.138.0.11 busy",
        "tokenizer: bpe",
        "passed 3 of 4 checks",
        "address: 10.0.0.1",
        "fe80::1 and 12:34:56",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert REDACTOR.text(text) == text


def test_a_device_is_the_same_word_however_its_address_is_written() -> None:
    forms = ["02:00:5e:10:00:AB", "02-00-5e-10-00-ab", "0200.5e10.00ab"]
    words = {REDACTOR.text(form) for form in forms}
    assert len(words) == 1
    assert words.pop().startswith("mac-")
    # In the next bundle it is another word.
    assert Redactor(b"j" * 32, []).text(forms[0]) != REDACTOR.text(forms[0])


def test_a_serial_is_hidden_wherever_it_stands() -> None:
    said = REDACTOR.text("enrol R58M4711ABC again; {serial: R58M4711ABC}; serial: Z9Y8X7W6")
    assert "R58M4711ABC" not in said
    assert "Z9Y8X7W6" not in said
    assert said.count(REDACTOR.text("R58M4711ABC")) == 2


def test_a_document_keeps_its_shape() -> None:
    document = {
        "name": "phone007",
        "serial": "ABCD1234",
        "login": {"password": SECRET, "user": "admin"},
        "tokens": [SECRET],
        "numbers": [1, 2.5, None, True],
        "said": f"password={SECRET}",
        "mac": "02:00:5e:10:00:ab",
    }
    said = REDACTOR.value(document)
    assert said["login"] == {"password": "[removed]", "user": "admin"}
    assert said["tokens"] == ["[removed]"]
    assert said["numbers"] == [1, 2.5, None, True]
    assert said["serial"].startswith("serial-")
    assert said["mac"].startswith("mac-")
    assert SECRET not in json.dumps(said)


def test_lines_of_json_stay_lines_and_a_broken_one_is_text() -> None:
    text = json.dumps({"kind": "ended", "token": SECRET}) + f'\n{{"password": "{SECRET}", "cut'
    first, second = REDACTOR.json_lines(text).splitlines()
    assert json.loads(first) == {"kind": "ended", "token": "[removed]"}
    assert SECRET not in second


known = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=6, max_size=20)


@given(known, st.text(max_size=60), st.text(max_size=60))
def test_a_secret_that_is_known_is_gone_from_any_text(secret: str, left: str, right: str) -> None:
    redactor = Redactor(KEY, [], [secret])
    assert secret not in redactor.text(f"{left}{secret}{right}").replace("[removed]", "\0")
