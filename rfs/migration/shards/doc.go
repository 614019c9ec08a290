// Package shards reads the documents of a snapshot's shards in the form in which a migration sends them: with the names, ids and sources
// that the entry of their index defines.
//
// [Reader.Source] is the source of an index's items for package engine. [Read], [Open] and [Count] read a shard outside of a lease,
// for a comparison or to send single documents again. [Ahead] opens shards before their items are leased.
package shards
