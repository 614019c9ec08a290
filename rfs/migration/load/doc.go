// Package load measures the rate at which a migration sends documents: a [Load] reads parts of the shards of a trial run, sends them to
// scratch indices as a migration does, and deletes the scratch indices.
package load
