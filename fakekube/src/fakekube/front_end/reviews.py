"""Reviews: SubjectAccessReviews and their variants, SelfSubjectReviews, TokenReviews, and TokenRequests.

A client creates a review like an object; the server fills in its status and stores nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from fakekube.front_end.attributes import Attributes, attributes
from fakekube.front_end.rbac import Authorizer, Decision
from fakekube.front_end.users import Users
from fakekube.model.refusals import bad_request, invalid, invalid_value
from fakekube.model.wire import Json, Object, Request, User
from fakekube.server.server import Virtual

__all__ = ["AUTHENTICATION", "AUTHORIZATION", "reviews", "token_request"]

AUTHENTICATION, AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"


def reviews(users: Users, authorizer: Authorizer, now: Callable[[], datetime]) -> Mapping[tuple[str, str], Virtual]:
    """The reviews by (group, plural), for the `virtual` of an Api."""

    def self_subject_access(asked: Object, request: Request) -> Object:
        return _decided(asked, authorizer.decide(request.user, _asked_for(asked)))

    def subject_access(asked: Object, _request: Request) -> Object:
        return _decided(asked, authorizer.decide(_subject(asked), _asked_for(asked)))

    def local_subject_access(asked: Object, request: Request) -> Object:
        return _decided(_local(asked, request), authorizer.decide(_subject(asked), _asked_for(asked)))

    def self_subject_rules(asked: Object, request: Request) -> Object:
        namespace = _spec(asked).get("namespace", "")
        if not namespace:
            raise bad_request("no namespace on request")
        return asked | {"spec": {}, "status": _rules(authorizer.rules(request.user, namespace))}

    def self_subject(asked: Object, request: Request) -> Object:
        metadata = {"creationTimestamp": now().strftime("%Y-%m-%dT%H:%M:%SZ")}
        return asked | {"metadata": metadata, "status": {"userInfo": _user_info(request.user)}}

    def token(asked: Object, _request: Request) -> Object:
        return asked | {"status": _token_status(users, _spec(asked).get("token", ""))}

    return {
        (AUTHORIZATION, "selfsubjectaccessreviews"): self_subject_access,
        (AUTHORIZATION, "subjectaccessreviews"): subject_access,
        (AUTHORIZATION, "localsubjectaccessreviews"): local_subject_access,
        (AUTHORIZATION, "selfsubjectrulesreviews"): self_subject_rules,
        (AUTHENTICATION, "selfsubjectreviews"): self_subject,
        (AUTHENTICATION, "tokenreviews"): token,
    }


def _spec(asked: Json) -> Mapping[str, Any]:
    spec = asked.get("spec") if isinstance(asked, dict) else None
    return spec if isinstance(spec, dict) else {}


def _decided(asked: Object, decision: Decision) -> Object:
    reason = {"reason": decision.reason} if decision.reason else {}
    return asked | {"status": {"allowed": decision.allowed, **reason}}


def _asked_for(asked: Object) -> Attributes:
    """The attributes under review. Raises Refused (422) unless the review has exactly one sort of them."""
    spec = _spec(asked)
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (path is None):
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        if resource is not None:
            detail = "cannot be specified in combination with resourceAttributes"
        field = "spec.resourceAttributes" if resource is None else "spec.nonResourceAttributes"
        raise invalid(AUTHORIZATION, "", "", [invalid_value(field, path, detail)])
    if resource is None:
        assert path is not None
        return Attributes(path.get("verb", ""), path.get("path", ""))
    parts = {key: resource.get(key, "") for key in ("verb", "group", "version", "resource", "subresource", "namespace")}
    return Attributes(path="", name=resource.get("name", ""), **parts)


def _subject(asked: Object) -> User:
    spec = _spec(asked)
    name, groups = spec.get("user", ""), tuple(spec.get("groups") or ())
    if not name and not groups:
        detail = "at least one of user or group must be specified"
        raise invalid(AUTHORIZATION, "", "", [invalid_value("spec.user", "", detail)])
    return User(name, groups, spec.get("uid", ""))


def _local(asked: Object, request: Request) -> Object:
    """A LocalSubjectAccessReview in the namespace of its path. Raises Refused (422) for attributes in another
    namespace."""
    namespace = attributes(request).namespace
    wanted = (_spec(asked).get("resourceAttributes") or {}).get("namespace", "")
    if wanted != namespace:
        detail = "must match metadata.namespace"
        problem = invalid_value("spec.resourceAttributes.namespace", wanted, detail)
        raise invalid(AUTHORIZATION, "", "", [problem])
    return asked | {"metadata": {**asked.get("metadata", {}), "namespace": namespace}}


def _rules(rules: Iterable[Mapping[str, Any]]) -> Object:
    listed = [dict(rule) for rule in rules]
    return {
        "resourceRules": [rule for rule in listed if "resources" in rule],
        "nonResourceRules": [rule for rule in listed if "nonResourceURLs" in rule],
        "incomplete": False,
    }


def _user_info(user: User) -> Object:
    info = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    return {key: value for key, value in info.items() if value}


def _token_status(users: Users, token: str) -> Object:
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    user = users.by_token(token)
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": _user_info(user), "audiences": [users.issuer]}


_SHORTEST, _USUAL, _LONGEST = 600, 3600, 2**32


def token_request(users: Users, account: Object, asked: Json, *, now: datetime, serial: str) -> Object:
    """A TokenRequest with a new token of the service account. Raises Refused (422) for a lifetime outside 10 minutes to
    2^32 seconds."""
    seconds = _spec(asked).get("expirationSeconds", _USUAL)
    if problem := _lifetime_problem(seconds):
        raise invalid(AUTHENTICATION, "TokenRequest", "", [invalid_value("spec.expirationSeconds", seconds, problem)])
    metadata = {key: account["metadata"][key] for key in ("name", "namespace", "uid")}
    return {
        "kind": "TokenRequest",
        "apiVersion": f"{AUTHENTICATION}/v1",
        "metadata": {**metadata, "creationTimestamp": _stamp(now)},
        "spec": {
            "audiences": _spec(asked).get("audiences") or [users.issuer],
            "expirationSeconds": seconds,
            "boundObjectRef": _spec(asked).get("boundObjectRef"),
        },
        "status": {
            "token": users.issue(account, seconds=seconds, serial=serial),
            "expirationTimestamp": _stamp(now + timedelta(seconds=seconds)),
        },
    }


def _lifetime_problem(seconds: Json) -> str:
    if not isinstance(seconds, int) or seconds < _SHORTEST:
        return "may not specify a duration less than 10 minutes"
    return "may not specify a duration larger than 2^32 seconds" if seconds > _LONGEST else ""


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
