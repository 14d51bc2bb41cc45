"""Names that Kubernetes takes."""

from __future__ import annotations

import pytest

from fakekube.model.values.names import NameRule, dns_label, dns_subdomain, label_value, path_segment, qualified_name


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (dns_label, "a"),
        (dns_label, "a-1"),
        (dns_label, "a" * 63),
        (dns_subdomain, "a.b-c.d"),
        (dns_subdomain, "1.2"),
        (path_segment, "system:node"),
        (path_segment, "a b"),
        (label_value, ""),
        (label_value, "A_b-c.9"),
        (qualified_name, "Name.x_y"),
        (qualified_name, "example.com/name"),
    ],
)
def test_good_names(rule: NameRule, name: str) -> None:
    assert not rule(name)


@pytest.mark.parametrize(
    ("rule", "name", "part"),
    [
        (dns_label, "A", "a lowercase RFC 1123 label must consist of"),
        (dns_label, "a.b", "must not contain dots"),
        (dns_label, "-a", "a lowercase RFC 1123 label"),
        (dns_label, "a" * 64, "must be no more than 63 characters"),
        (dns_subdomain, "a..b", "a lowercase RFC 1123 subdomain must consist of"),
        (dns_subdomain, "a" * 254, "must be no more than 253 characters"),
        (dns_subdomain, "a\n", "a lowercase RFC 1123 subdomain"),
        (path_segment, "a/b", "may not contain '/'"),
        (path_segment, "a%b", "may not contain '%'"),
        (path_segment, "..", "may not be '..'"),
        (label_value, "a b", "a valid label must be an empty string or consist of"),
        (label_value, "x" * 64, "must be no more than 63 characters"),
        (qualified_name, "", "name part must be non-empty"),
        (qualified_name, "/a", "prefix part must be non-empty"),
        (qualified_name, "A/b", "prefix part a lowercase RFC 1123 subdomain"),
        (qualified_name, "a/b/c", "a qualified name must consist of"),
        (qualified_name, "a/" + "b" * 64, "name part must be no more than 63 characters"),
    ],
)
def test_bad_names(rule: NameRule, name: str, part: str) -> None:
    assert any(part in each for each in rule(name))
