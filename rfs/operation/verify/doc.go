// Package verify compares the documents of a migration with the documents of its target: counts, order-independent digests, and,
// if these differ, the documents by their ids.
//
// A [Verifier] compares each [Group]: its target indices, and the [Unit]s of the source, such as shards. The [Target]
// returns the units of an index. [Work] names the coordination store through which several processes share a comparison. The result is
// an [Index] for each target index, with a [Tally] of both sides and each [Difference], and a [Report] of all indices.
package verify
