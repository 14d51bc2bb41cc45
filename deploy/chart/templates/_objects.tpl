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

{{/* The name of an image. */}}
{{- define "multikueue.image" -}}
{{- $tag := .image.tag | default .root.Chart.AppVersion -}}
{{- print .image.repository (ternary (print "@" .image.digest) (print ":" $tag) (ne .image.digest "")) -}}
{{- end }}

{{/* Says of a pod where it runs, and how its images are pulled. Prints nothing. */}}
{{- define "multikueue.placed" }}
{{- range $name := list "imagePullSecrets" "priorityClassName" "nodeSelector" "tolerations" "affinity" }}
{{- with index $.root.Values $name }}
{{- $_ := set $.pod $name . }}
{{- end }}
{{- end }}
{{- end }}

{{/* One object of the console, with its values. */}}
{{- define "multikueue.console" }}
{{- $values := .root.Values.console }}
{{- if eq .object.kind "Deployment" }}
{{- $pod := .object.spec.template.spec }}
{{- range $container := $pod.containers }}
{{- $_ := set $container "image" (include "multikueue.image" (dict "root" $.root "image" $values.image)) }}
{{- if eq $container.name "console" }}
{{- $_ := set $container "args" (concat $container.args $values.arguments) }}
{{- end }}
{{- end }}
{{- include "multikueue.placed" (dict "root" .root "pod" $pod) }}
{{- else if eq .object.kind "PersistentVolumeClaim" }}
{{- $_ := set .object.spec.resources.requests "storage" $values.storage.size }}
{{- with $values.storage.className }}
{{- $_ := set $.object.spec "storageClassName" . }}
{{- end }}
{{- end }}
{{- include "multikueue.object" . }}
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
