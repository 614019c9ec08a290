{{- define "rfsd.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "rfsd.selector" -}}
app.kubernetes.io/name: rfsd
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "rfsd.labels" -}}
{{ include "rfsd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}

{{- define "rfsd.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "rfsd.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}
