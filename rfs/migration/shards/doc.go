// Package shards reads the documents of a snapshot's shards as a migration sends them: with the names, ids and sources that the
// entry of their index decides.
//
// [Reader.Source] is the source of the items of an index for package engine. [Read], [Open] and [Count] read a shard outside of a lease,
// for a comparison or to send single documents again. [Ahead] opens shards before their items are leased.
package shards
