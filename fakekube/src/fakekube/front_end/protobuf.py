"""Decoder of request bodies in Kubernetes' protobuf encoding, which kubectl sends for built-in kinds.

Go clients accept JSON answers, but do not fall back to JSON when a server refuses protobuf in a request. So requests
need a decoder, for the kinds that such clients create. A field that is not in the table below is refused, never
dropped.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple

import msgspec

from fakekube.model.wire import Json, Object, Refused

__all__ = ["PROTOBUF", "decoded"]

PROTOBUF = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"


def decoded(body: bytes) -> Object:
    """The object in a body. Raises Refused: 400 for a malformed body, 415 for a kind or field that the table lacks."""
    if not body.startswith(_MAGIC):
        raise _malformed("expected the magic number first")
    try:
        envelope = _message("Unknown", body[len(_MAGIC) :])
        kind = envelope.get("typeMeta", {}).get("kind", "")
        if kind not in _messages():
            raise _unknown(f"kind {kind}")
        return {
            "kind": kind,
            "apiVersion": envelope["typeMeta"].get("apiVersion", ""),
            **_message(kind, envelope.get("raw", b"")),
        }
    except (IndexError, UnicodeDecodeError, OverflowError, msgspec.DecodeError) as error:
        raise _malformed(str(error)) from None


def _malformed(why: str) -> Refused:
    return Refused(400, "BadRequest", f"the protobuf body of the request can't be read: {why}")


def _unknown(what: str) -> Refused:
    return Refused(415, "UnsupportedMediaType", f"fakekube can't read {what} in protobuf; send application/json")


class _Field(NamedTuple):
    """A field of a message. `keeps_zero` marks pointers, which are sent even if zero; zero values of other fields are
    left out."""

    name: str
    type: str
    repeated: bool = False
    mapped: bool = False
    keeps_zero: bool = False

    @classmethod
    def parse(cls, text: str) -> tuple[int, _Field]:
        """`3 command [s]`: number, name in JSON (`<` inlines the fields of another message), and type (default: a
        string)."""
        number, name, *rest = text.split()
        type_ = rest[0] if rest else "s"
        field = cls(name, type_.strip("[]{}*"), "[" in type_, "{" in type_, type_.endswith("*"))
        return int(number), field


@cache
def _messages() -> Mapping[str, Mapping[int, _Field]]:
    """The parsed table: fields by number, by name of the message."""
    entries = _MESSAGES.replace("\n  ", " ").strip().splitlines()
    split = (entry.partition(": ") for entry in entries)
    return {name: dict(_Field.parse(text) for text in fields.split(", ")) for name, _, fields in split}


def _message(name: str, content: bytes) -> Object:
    fields, made = _messages()[name], Object()
    for number, value in _wire(content):
        field = fields.get(number)
        if field is None:
            raise _unknown(f"field {number} of {name}")
        _put(made, field, value)
    return made


def _put(made: Object, field: _Field, value: int | bytes) -> None:
    if field.mapped:
        entry = dict(_wire(_bytes(value)))
        made.setdefault(field.name, {})[_bytes(entry.get(1, b"")).decode()] = _value(field.type, entry.get(2, b""))
        return
    read = _value(field.type, value)
    if field.name == "<":
        made.update(read)
    elif field.repeated:
        made.setdefault(field.name, []).append(read)
    elif read is not None and (read or field.keeps_zero):
        made[field.name] = read


def _value(type_: str, value: int | bytes) -> Json:
    read = _SCALARS.get(type_)
    return read(value) if read is not None else _message(type_, _bytes(value))


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise _malformed("a number where there should be a text or a message")
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode()


def _integer(value: int | bytes) -> int:
    number = value if isinstance(value, int) else 0
    return number - 2**64 if number >= 2**63 else number


def _time(value: int | bytes, *, digits: str = "seconds") -> str | None:
    """A time in RFC 3339; None for the zero time, which is an empty message."""
    parts = dict(_wire(_bytes(value)))
    if not parts:
        return None
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=_integer(parts.get(1, 0)))
    moment += timedelta(microseconds=_integer(parts.get(2, 0)) // 1000)
    return moment.isoformat(timespec=digits).replace("+00:00", "Z")


def _int_or_string(value: int | bytes) -> int | str:
    parts = dict(_wire(_bytes(value)))
    return _text(parts.get(3, b"")) if parts.get(1) else _integer(parts.get(2, 0))


def _raw(value: int | bytes) -> Json:
    return msgspec.json.decode(_bytes(dict(_wire(_bytes(value))).get(1, b"null")))


_SCALARS: Mapping[str, Callable[[int | bytes], Json]] = {
    "s": _text,
    "b": bool,
    "i": _integer,
    "B": lambda value: b64encode(_bytes(value)).decode(),
    "bytes": _bytes,
    "Time": _time,
    "MicroTime": lambda value: _time(value, digits="microseconds"),
    "Quantity": lambda value: _text(dict(_wire(_bytes(value))).get(1, b"")),
    "IntOrString": _int_or_string,
    "Raw": _raw,
}


def _wire(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers and values of one message. Raises IndexError for a truncated message."""
    position = 0
    while position < len(content):
        key, position = _varint(content, position)
        if key & 7 == 0:
            value, position = _varint(content, position)
            yield key >> 3, value
            continue
        if key & 7 != 2:
            raise _malformed(f"unexpected wire type {key & 7}")
        length, position = _varint(content, position)
        if position + length > len(content):
            raise IndexError("it ends too early")
        yield key >> 3, content[position : position + length]
        position += length


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
        if shift > 63:
            raise _malformed("a number of more than 64 bits")


_MESSAGES = """
Unknown: 1 typeMeta TypeMeta, 2 raw bytes, 3 contentEncoding, 4 contentType
TypeMeta: 1 apiVersion, 2 kind
Affinity: 1 nodeAffinity NodeAffinity, 2 podAffinity PodAffinity, 3 podAntiAffinity PodAntiAffinity
BoundObjectReference: 1 kind, 2 apiVersion, 3 name, 4 uid
Capabilities: 1 add [s], 2 drop [s]
ClusterRole: 1 metadata ObjectMeta, 2 rules [PolicyRule]
ClusterRoleBinding: 1 metadata ObjectMeta, 2 subjects [Subject], 3 roleRef RoleRef
ConfigMap: 1 metadata ObjectMeta, 4 immutable b*, 2 data {s}, 3 binaryData {B}
ConfigMapEnvSource: 1 < LocalObjectReference, 2 optional b*
ConfigMapKeySelector: 1 < LocalObjectReference, 2 key s*, 3 optional b*
ConfigMapVolumeSource: 1 < LocalObjectReference, 2 items [KeyToPath], 3 defaultMode i*, 4 optional b*
Container: 1 name s*, 2 image, 3 command [s], 4 args [s], 5 workingDir, 6 ports [ContainerPort], 19 envFrom
  [EnvFromSource], 7 env [EnvVar], 8 resources ResourceRequirements, 23 resizePolicy [ContainerResizePolicy], 24
  restartPolicy s*, 9 volumeMounts [VolumeMount], 21 volumeDevices [VolumeDevice], 10 livenessProbe Probe, 11
  readinessProbe Probe, 22 startupProbe Probe, 12 lifecycle Lifecycle, 13 terminationMessagePath, 20
  terminationMessagePolicy, 14 imagePullPolicy, 15 securityContext SecurityContext, 16 stdin b, 17 stdinOnce b, 18 tty
  b
ContainerPort: 1 name, 2 hostPort i, 3 containerPort i*, 4 protocol, 5 hostIP
ContainerResizePolicy: 1 resourceName s*, 2 restartPolicy s*
CronJob: 1 metadata ObjectMeta, 2 spec CronJobSpec, 3 status CronJobStatus
CronJobSpec: 1 schedule s*, 8 timeZone s*, 2 startingDeadlineSeconds i*, 3 concurrencyPolicy, 4 suspend b*, 5
  jobTemplate JobTemplateSpec, 6 successfulJobsHistoryLimit i*, 7 failedJobsHistoryLimit i*
CronJobStatus: 1 active [ObjectReference], 4 lastScheduleTime Time, 5 lastSuccessfulTime Time
DeleteOptions: 1 gracePeriodSeconds i*, 2 preconditions Preconditions, 3 orphanDependents b*, 4 propagationPolicy s*,
  5 dryRun [s], 6 ignoreStoreReadErrorWithClusterBreakingPotential b*
DownwardAPIVolumeFile: 1 path s*, 2 fieldRef ObjectFieldSelector, 3 resourceFieldRef ResourceFieldSelector, 4 mode i*
DownwardAPIVolumeSource: 1 items [DownwardAPIVolumeFile], 2 defaultMode i*
EmptyDirVolumeSource: 1 medium, 2 sizeLimit Quantity
EnvFromSource: 1 prefix, 2 configMapRef ConfigMapEnvSource, 3 secretRef SecretEnvSource
EnvVar: 1 name s*, 2 value, 3 valueFrom EnvVarSource
EnvVarSource: 1 fieldRef ObjectFieldSelector, 2 resourceFieldRef ResourceFieldSelector, 3 configMapKeyRef
  ConfigMapKeySelector, 4 secretKeyRef SecretKeySelector
Event: 1 metadata ObjectMeta, 2 involvedObject ObjectReference, 3 reason, 4 message, 5 source EventSource, 6
  firstTimestamp Time, 7 lastTimestamp Time, 8 count i, 9 type, 10 eventTime MicroTime, 11 series EventSeries, 12
  action, 13 related ObjectReference, 14 reportingComponent s*, 15 reportingInstance s*
EventSeries: 1 count i, 2 lastObservedTime MicroTime
EventSource: 1 component, 2 host
ExecAction: 1 command [s]
GRPCAction: 1 port i*, 2 service s*
HTTPGetAction: 1 path, 2 port IntOrString, 3 host, 4 scheme, 5 httpHeaders [HTTPHeader]
HTTPHeader: 1 name s*, 2 value s*
HostAlias: 1 ip s*, 2 hostnames [s]
HostPathVolumeSource: 1 path s*, 2 type s*
Job: 1 metadata ObjectMeta, 2 spec JobSpec, 3 status JobStatus
JobCondition: 1 type s*, 2 status s*, 3 lastProbeTime Time, 4 lastTransitionTime Time, 5 reason, 6 message
JobSpec: 1 parallelism i*, 2 completions i*, 3 activeDeadlineSeconds i*, 11 podFailurePolicy PodFailurePolicy, 16
  successPolicy SuccessPolicy, 7 backoffLimit i*, 12 backoffLimitPerIndex i*, 13 maxFailedIndexes i*, 4 selector
  LabelSelector, 5 manualSelector b*, 6 template PodTemplateSpec, 8 ttlSecondsAfterFinished i*, 9 completionMode s*,
  10 suspend b*, 14 podReplacementPolicy s*, 15 managedBy s*
JobStatus: 1 conditions [JobCondition], 2 startTime Time, 3 completionTime Time, 4 active i, 5 succeeded i, 6 failed
  i, 11 terminating i*, 7 completedIndexes, 10 failedIndexes s*, 8 uncountedTerminatedPods UncountedTerminatedPods, 9
  ready i*
JobTemplateSpec: 1 metadata ObjectMeta, 2 spec JobSpec
KeyToPath: 1 key s*, 2 path s*, 3 mode i*
LabelSelector: 1 matchLabels {s}, 2 matchExpressions [LabelSelectorRequirement]
LabelSelectorRequirement: 1 key s*, 2 operator s*, 3 values [s]
Lease: 1 metadata ObjectMeta, 2 spec LeaseSpec
LeaseSpec: 1 holderIdentity s*, 2 leaseDurationSeconds i*, 3 acquireTime MicroTime, 4 renewTime MicroTime, 5
  leaseTransitions i*, 6 strategy s*, 7 preferredHolder s*
Lifecycle: 1 postStart LifecycleHandler, 2 preStop LifecycleHandler, 3 stopSignal s*
LifecycleHandler: 1 exec ExecAction, 2 httpGet HTTPGetAction, 3 tcpSocket TCPSocketAction, 4 sleep SleepAction
LocalObjectReference: 1 name
LocalSubjectAccessReview: 1 metadata ObjectMeta, 2 spec SubjectAccessReviewSpec, 3 status SubjectAccessReviewStatus
ManagedFieldsEntry: 1 manager, 2 operation, 3 apiVersion, 4 time Time, 6 fieldsType, 7 fieldsV1 Raw, 8 subresource
Namespace: 1 metadata ObjectMeta, 2 spec NamespaceSpec, 3 status NamespaceStatus
NamespaceCondition: 1 type s*, 2 status s*, 4 lastTransitionTime Time, 5 reason, 6 message
NamespaceSpec: 1 finalizers [s]
NamespaceStatus: 1 phase, 2 conditions [NamespaceCondition]
NodeAffinity: 1 requiredDuringSchedulingIgnoredDuringExecution NodeSelector, 2
  preferredDuringSchedulingIgnoredDuringExecution [PreferredSchedulingTerm]
NodeSelector: 1 nodeSelectorTerms [NodeSelectorTerm]
NodeSelectorRequirement: 1 key s*, 2 operator s*, 3 values [s]
NodeSelectorTerm: 1 matchExpressions [NodeSelectorRequirement], 2 matchFields [NodeSelectorRequirement]
NonResourceAttributes: 1 path, 2 verb
NonResourceRule: 1 verbs [s], 2 nonResourceURLs [s]
ObjectFieldSelector: 1 apiVersion, 2 fieldPath s*
ObjectMeta: 1 name, 2 generateName, 3 namespace, 4 selfLink, 5 uid, 6 resourceVersion, 7 generation i, 8
  creationTimestamp Time, 9 deletionTimestamp Time, 10 deletionGracePeriodSeconds i*, 11 labels {s}, 12 annotations
  {s}, 13 ownerReferences [OwnerReference], 14 finalizers [s], 17 managedFields [ManagedFieldsEntry]
ObjectReference: 1 kind, 2 namespace, 3 name, 4 uid, 5 apiVersion, 6 resourceVersion, 7 fieldPath
OwnerReference: 5 apiVersion s*, 1 kind s*, 3 name s*, 4 uid s*, 6 controller b*, 7 blockOwnerDeletion b*
PersistentVolumeClaimVolumeSource: 1 claimName s*, 2 readOnly b
Pod: 1 metadata ObjectMeta, 2 spec PodSpec
PodAffinity: 1 requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm], 2
  preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm]
PodAffinityTerm: 1 labelSelector LabelSelector, 2 namespaces [s], 3 topologyKey s*, 4 namespaceSelector LabelSelector,
  5 matchLabelKeys [s], 6 mismatchLabelKeys [s]
PodAntiAffinity: 1 requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm], 2
  preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm]
PodFailurePolicy: 1 rules [PodFailurePolicyRule]
PodFailurePolicyOnExitCodesRequirement: 1 containerName s*, 2 operator s*, 3 values [i]
PodFailurePolicyOnPodConditionsPattern: 1 type s*, 2 status s*
PodFailurePolicyRule: 1 action s*, 2 onExitCodes PodFailurePolicyOnExitCodesRequirement, 3 onPodConditions
  [PodFailurePolicyOnPodConditionsPattern]
PodReadinessGate: 1 conditionType s*
PodResourceClaim: 1 name s*, 3 resourceClaimName s*, 4 resourceClaimTemplateName s*
PodSchedulingGate: 1 name s*
PodSecurityContext: 2 runAsUser i*, 6 runAsGroup i*, 3 runAsNonRoot b*, 4 supplementalGroups [i], 12
  supplementalGroupsPolicy s*, 5 fsGroup i*, 9 fsGroupChangePolicy s*, 13 seLinuxChangePolicy s*
PodSpec: 1 volumes [Volume], 20 initContainers [Container], 2 containers [Container], 3 restartPolicy, 4
  terminationGracePeriodSeconds i*, 5 activeDeadlineSeconds i*, 6 dnsPolicy, 7 nodeSelector {s}, 8 serviceAccountName,
  9 serviceAccount, 21 automountServiceAccountToken b*, 10 nodeName, 11 hostNetwork b, 12 hostPID b, 13 hostIPC b, 27
  shareProcessNamespace b*, 14 securityContext PodSecurityContext, 15 imagePullSecrets [LocalObjectReference], 16
  hostname, 17 subdomain, 18 affinity Affinity, 19 schedulerName, 22 tolerations [Toleration], 23 hostAliases
  [HostAlias], 24 priorityClassName, 25 priority i*, 28 readinessGates [PodReadinessGate], 29 runtimeClassName s*, 30
  enableServiceLinks b*, 31 preemptionPolicy s*, 32 overhead {Quantity}, 33 topologySpreadConstraints
  [TopologySpreadConstraint], 35 setHostnameAsFQDN b*, 37 hostUsers b*, 38 schedulingGates [PodSchedulingGate], 39
  resourceClaims [PodResourceClaim], 40 resources ResourceRequirements, 41 hostnameOverride s*
PodTemplateSpec: 1 metadata ObjectMeta, 2 spec PodSpec
PolicyRule: 1 verbs [s], 2 apiGroups [s], 3 resources [s], 4 resourceNames [s], 5 nonResourceURLs [s]
Preconditions: 1 uid, 2 resourceVersion s*
PreferredSchedulingTerm: 1 weight i*, 2 preference NodeSelectorTerm
PriorityClass: 1 metadata ObjectMeta, 2 value i*, 3 globalDefault b, 4 description, 5 preemptionPolicy s*
Probe: 1 < ProbeHandler, 2 initialDelaySeconds i, 3 timeoutSeconds i, 4 periodSeconds i, 5 successThreshold i, 6
  failureThreshold i, 7 terminationGracePeriodSeconds i*
ProbeHandler: 1 exec ExecAction, 2 httpGet HTTPGetAction, 3 tcpSocket TCPSocketAction, 4 grpc GRPCAction
ResourceAttributes: 1 namespace, 2 verb, 3 group, 4 version, 5 resource, 6 subresource, 7 name
ResourceClaim: 1 name s*, 2 request
ResourceFieldSelector: 1 containerName, 2 resource s*, 3 divisor Quantity
ResourceQuota: 1 metadata ObjectMeta, 2 spec ResourceQuotaSpec, 3 status ResourceQuotaStatus
ResourceQuotaSpec: 1 hard {Quantity}, 2 scopes [s], 3 scopeSelector ScopeSelector
ResourceQuotaStatus: 1 hard {Quantity}, 2 used {Quantity}
ResourceRequirements: 1 limits {Quantity}, 2 requests {Quantity}, 3 claims [ResourceClaim]
ResourceRule: 1 verbs [s], 2 apiGroups [s], 3 resources [s], 4 resourceNames [s]
Role: 1 metadata ObjectMeta, 2 rules [PolicyRule]
RoleBinding: 1 metadata ObjectMeta, 2 subjects [Subject], 3 roleRef RoleRef
RoleRef: 1 apiGroup s*, 2 kind s*, 3 name s*
ScopeSelector: 1 matchExpressions [ScopedResourceSelectorRequirement]
ScopedResourceSelectorRequirement: 1 scopeName s*, 2 operator s*, 3 values [s]
Secret: 1 metadata ObjectMeta, 5 immutable b*, 2 data {B}, 4 stringData {s}, 3 type
SecretEnvSource: 1 < LocalObjectReference, 2 optional b*
SecretKeySelector: 1 < LocalObjectReference, 2 key s*, 3 optional b*
SecretVolumeSource: 1 secretName, 2 items [KeyToPath], 3 defaultMode i*, 4 optional b*
SecurityContext: 1 capabilities Capabilities, 2 privileged b*, 4 runAsUser i*, 8 runAsGroup i*, 5 runAsNonRoot b*, 6
  readOnlyRootFilesystem b*, 7 allowPrivilegeEscalation b*, 9 procMount s*
SelfSubjectAccessReview: 1 metadata ObjectMeta, 2 spec SelfSubjectAccessReviewSpec, 3 status SubjectAccessReviewStatus
SelfSubjectAccessReviewSpec: 1 resourceAttributes ResourceAttributes, 2 nonResourceAttributes NonResourceAttributes
SelfSubjectReview: 1 metadata ObjectMeta, 2 status SelfSubjectReviewStatus
SelfSubjectReviewStatus: 1 userInfo UserInfo
SelfSubjectRulesReview: 1 metadata ObjectMeta, 2 spec SelfSubjectRulesReviewSpec, 3 status SubjectRulesReviewStatus
SelfSubjectRulesReviewSpec: 1 namespace
ServiceAccount: 1 metadata ObjectMeta, 2 secrets [ObjectReference], 3 imagePullSecrets [LocalObjectReference], 4
  automountServiceAccountToken b*
SleepAction: 1 seconds i*
Subject: 1 kind s*, 2 apiGroup, 3 name s*, 4 namespace
SubjectAccessReview: 1 metadata ObjectMeta, 2 spec SubjectAccessReviewSpec, 3 status SubjectAccessReviewStatus
SubjectAccessReviewSpec: 1 resourceAttributes ResourceAttributes, 2 nonResourceAttributes NonResourceAttributes, 3
  user, 4 groups [s], 6 uid
SubjectAccessReviewStatus: 1 allowed b*, 4 denied b, 2 reason, 3 evaluationError
SubjectRulesReviewStatus: 1 resourceRules [ResourceRule], 2 nonResourceRules [NonResourceRule], 3 incomplete b*, 4
  evaluationError
SuccessPolicy: 1 rules [SuccessPolicyRule]
SuccessPolicyRule: 1 succeededIndexes s*, 2 succeededCount i*
TCPSocketAction: 1 port IntOrString, 2 host
TokenRequest: 1 metadata ObjectMeta, 2 spec TokenRequestSpec, 3 status TokenRequestStatus
TokenRequestSpec: 1 audiences [s], 4 expirationSeconds i*, 3 boundObjectRef BoundObjectReference
TokenRequestStatus: 1 token s*, 2 expirationTimestamp Time
TokenReview: 1 metadata ObjectMeta, 2 spec TokenReviewSpec, 3 status TokenReviewStatus
TokenReviewSpec: 1 token, 2 audiences [s]
TokenReviewStatus: 1 authenticated b, 2 user UserInfo, 4 audiences [s], 3 error
Toleration: 1 key, 2 operator, 3 value, 4 effect, 5 tolerationSeconds i*
TopologySpreadConstraint: 1 maxSkew i*, 2 topologyKey s*, 3 whenUnsatisfiable s*, 4 labelSelector LabelSelector, 5
  minDomains i*, 6 nodeAffinityPolicy s*, 7 nodeTaintsPolicy s*, 8 matchLabelKeys [s]
UncountedTerminatedPods: 1 succeeded [s], 2 failed [s]
UserInfo: 1 username, 2 uid, 3 groups [s]
Volume: 1 name s*, 2 < VolumeSource
VolumeDevice: 1 name s*, 2 devicePath s*
VolumeMount: 1 name s*, 2 readOnly b, 7 recursiveReadOnly s*, 3 mountPath s*, 4 subPath, 5 mountPropagation s*, 6
  subPathExpr
VolumeSource: 1 hostPath HostPathVolumeSource, 2 emptyDir EmptyDirVolumeSource, 6 secret SecretVolumeSource, 10
  persistentVolumeClaim PersistentVolumeClaimVolumeSource, 16 downwardAPI DownwardAPIVolumeSource, 19 configMap
  ConfigMapVolumeSource
WeightedPodAffinityTerm: 1 weight i*, 2 podAffinityTerm PodAffinityTerm
"""
