// Package verify compares what a migration was to send with what a target holds: counts, digests that do not depend on
// any order, and, where these differ, the documents by their ids.
//
// A [Verifier] compares each [Group]: the target indices that it writes to, and the [Unit]s of the source, such as shards. The [Target]
// returns the units of an index. [Work] names the coordination store in which several processes share a comparison. The result is an
// [Index] for each target index, with a [Tally] of both sides and each [Difference], and a [Report] of all of them.
package verify
