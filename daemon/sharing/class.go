// Package sharing decides which settings of a fleet a node accepts from the coordination store. The store is untrusted: settings that
// affect where data or credentials go are accepted only from a record that the fleet's key has signed.
package sharing

import "strings"

// Class is the trust that a setting requires.
type Class int

// Classes. A setting without one is Own.
const (
	Own    Class = iota // specific to a machine, or a secret: never shared
	Pace                // speed, order and patience only: accepted from any record
	Signed              // sources, credentials' users, destinations and conversions: accepted from signed records only
)

// RulesText is the content of --rules, in which form it is shared.
const RulesText = "rules-text"

// failedDocuments is shared if it is a bucket; a directory is specific to a machine.
const failedDocuments = "failed-documents"

var classes = map[string]Class{
	// Where data comes from, and as whom it is read.
	"repo-uri": Signed, "remote-store-uri": Signed, "snapshot-name": Signed, "from": Signed,
	"s3-region": Signed, "s3-endpoint": Signed, "s3-path-style": Signed, "s3-role-arn": Signed, "s3-requester-pays": Signed,
	"gcs-endpoint": Signed, "azure-account": Signed, "azure-endpoint": Signed,
	"source-host": Signed, "source-username": Signed,
	"source-aws-sigv4": Signed, "source-aws-region": Signed, "source-aws-service": Signed, "source-aws-role-arn": Signed,

	// Topics and their destination. How each machine reaches the brokers is Own.
	"brokers": Signed, "topic": Signed, "group": Signed, "format": Signed, "index-name": Signed, "start": Signed,

	// Requests to the source.
	"snapshot-repo-name": Signed, "source-repo-type": Signed, "source-repo-location": Signed, "source-repo-setting": Signed,
	"without-global-state": Signed, "snapshot-no-wait": Signed, "retry-snapshot": Signed, "snapshot-max-rate": Pace,

	// Which documents go where, and as what.
	"phases": Signed, "index-allowlist": Signed, "index-exclude": Signed, "include-system": Signed, "include": Signed,
	"rebuild-text-from-terms": Signed,
	"template-allowlist":      Signed, "component-template-allowlist": Signed, "index-template-allowlist": Signed,
	"index-rename": Signed, "rules": Signed, RulesText: Signed, "without-rule": Signed, "aliases": Signed, "replicas": Signed, "shards": Signed,
	"data-streams": Signed, "multi-type": Signed, "duplicate-keys": Signed, "parent-join": Signed, "rebuild-sources": Signed, "emit-doc-type": Signed, "run-pipelines": Signed, "create-indices": Signed,
	"allow-partial": Signed, "existing-documents": Signed, "split-shards-over": Signed, "max-document-size": Signed, "failed-documents-content": Signed,

	// Following a cluster, and its effects on the source and on indices of the target.
	"follow": Signed, "stop-following": Signed, "delete-indices": Signed, "block-source-writes": Signed, "every": Pace,

	// Changes of the target in addition to documents.
	"tune-target": Signed, "no-tune-target": Signed, "ignore-disks": Signed,

	// Pace.
	"verify-first": Pace, "disable-compression": Pace, "documents-per-bulk-request": Pace, "documents-size-per-bulk-request": Pace,
	"max-connections": Pace, "max-rate": Pace, "max-read-rate": Pace, "target-max-latency": Pace, "first": Pace, "index-priority": Pace, "max-failed-documents": Pace, "unavailable-timeout": Pace,
	"initial-lease-duration": Pace, "max-lease-duration": Pace, "max-item-attempts": Pace, "clock-skew-tolerance": Pace, "window-size": Pace, "window-lease": Pace, "max-attempts": Pace,
	"partition-lease": Pace, "fetch-size": Pace, "max-batch-size": Pace,
}

// bucketURI reports whether a place is in a bucket, which every machine can reach.
func bucketURI(place string) bool {
	return strings.HasPrefix(place, "s3://") || strings.HasPrefix(place, "gs://") || strings.HasPrefix(place, "azblob://")
}

// ClassOf returns the class of a setting with these values: a bucket for rejected documents is shared, a directory is specific to a
// machine.
func ClassOf(name string, values []string) Class {
	if name == failedDocuments && len(values) == 1 && bucketURI(values[0]) {
		return Signed
	}
	return classes[name]
}
