// Package kafka reads a topic of Kafka, and commits offsets for a group without members, since the caller decides which process reads
// a partition.
//
// [New] returns a [Topic] for a [Config]. Topic.Describe returns the partitions and their offsets, Topic.Open reads one partition from an
// offset, and Topic.Commit commits offsets for the group. A Topic implements consume.Stream.
package kafka
