// Package store replicates the hints of a fleet by Raft among a few voters. Nothing in it is authoritative: a hint may reorder, delay or
// shrink work, never grant, extend, complete or skip it. Hints expire and may be lost at any time; that only affects speed.
//
// A node opens a [Store] with a [Config]: the files, its name in gossip, the connections ([Streams]), and the [Cluster] that the fleet
// agreed on. One node bootstraps; the Raft leader adds others with Store.ReconcileVoters, which takes the live [Node]s and follows
// [NextChange]. Store.Put proposes [Hint]s on the leader, and Store.List returns the unexpired ones of a kind from the node's own copy.
package store
