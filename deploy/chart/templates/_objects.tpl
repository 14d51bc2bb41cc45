{{/* What kustomize does with the manifests: the namespace, and on those of the base the labels and selectors. */}}

{{- define "multikueue.labels" -}}
app.kubernetes.io/name: multikueue
app.kubernetes.io/component: manager
{{- end }}

{{/* One object. `root`: the chart's values and release. `object`: the manifest. */}}
{{- define "multikueue.object" }}
{{- $object := .object }}
{{- if not (or (hasPrefix "Cluster" $object.kind) (eq $object.kind "PriorityClass")) }}
{{- $_ := set $object.metadata "namespace" .root.Release.Namespace }}
{{- end }}
{{- range $object.subjects }}
{{- $_ := set . "namespace" $.root.Release.Namespace }}
{{- end }}
{{- if eq $object.kind "Certificate" }}
{{- with $object.spec.dnsNames }}
{{- $_ := set $object.spec "dnsNames" (splitList "\n" (replace ".kueue-system." (printf ".%s." $.root.Release.Namespace) (join "\n" .))) }}
{{- end }}
{{- end }}
{{- if and .root.Values.monitoringLabels (hasPrefix "monitoring.coreos.com/" $object.apiVersion) }}
{{- $_ := set $object.metadata "labels" (merge dict .root.Values.monitoringLabels ($object.metadata.labels | default dict)) }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}

{{/* One object of the base, with labels, and selectors where its kind has them. */}}
{{- define "multikueue.base" }}
{{- $labels := fromYaml (include "multikueue.labels" .root) }}
{{- $_ := set .object.metadata "labels" $labels }}
{{- if eq .object.kind "Deployment" }}
{{- $_ := set .object.spec "selector" (dict "matchLabels" $labels) }}
{{- $_ := set .object.spec.template "metadata" (dict "labels" $labels) }}
{{- else if eq .object.kind "PodDisruptionBudget" }}
{{- $_ := set .object.spec "selector" (dict "matchLabels" $labels) }}
{{- else if eq .object.kind "Service" }}
{{- $_ := set .object.spec "selector" $labels }}
{{- end }}
{{- include "multikueue.object" . }}
{{- end }}

{{/* Every object of a file. `with`: the template for each. */}}
{{- define "multikueue.file" }}
{{- range regexSplit "(?m)^---$" (.root.Files.Get (print "manifests/" .file)) -1 }}
{{- with fromYaml . }}
{{- include $.with (dict "root" $.root "object" .) }}
{{- end }}
{{- end }}
{{- end }}
