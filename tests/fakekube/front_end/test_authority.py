from __future__ import annotations

from collections.abc import Callable

import pytest
from cryptography import x509

from fakekube.front_end.authority import Authority, Certificate
from testbed.certificates import new_authority


def test_it_signs_what_it_issues() -> None:
    authority = Authority()
    issuer = x509.load_pem_x509_certificate(authority.pem)
    issued = x509.load_pem_x509_certificate(authority.issue("anne", groups=("staff", "ops")).certificate)
    issued.verify_directly_issued_by(issuer)
    assert [attribute.value for attribute in issued.subject] == ["staff", "ops", "anne"]


def test_a_server_has_names_and_addresses() -> None:
    certificate = x509.load_pem_x509_certificate(Authority().issue("api", "127.0.0.1", "localhost").certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(each.value) for each in names] == ["127.0.0.1", "localhost"]


@pytest.mark.parametrize("make", [Authority, new_authority], ids=["elliptic curve", "RSA"])
def test_a_given_authority_issues_what_the_first_one_vouches_for(make: Callable[[], Authority]) -> None:
    first = make()
    again = Authority(given=Certificate(first.pem, first.key_pem))
    assert again.pem == first.pem
    issued = x509.load_pem_x509_certificate(again.issue("anne").certificate)
    issued.verify_directly_issued_by(x509.load_pem_x509_certificate(first.pem))


def test_two_authorities_do_not_trust_each_other() -> None:
    assert Authority().pem != Authority().pem
