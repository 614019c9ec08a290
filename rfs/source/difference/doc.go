// Package difference reads which documents of a shard differ between two of its commits, as they lie in two snapshots.
//
// Since Elasticsearch 6.0, and in all of OpenSearch, an operation on a shard has a sequence number that no other operation of the
// shard has, and each root document carries the number of the operation that wrote it (columns _seq_no and _primary_term; class
// SequenceNumbers). Two commits therefore differ by two sets of numbers: a version of a document whose number only the later commit
// has is new, one whose number only the earlier commit has is gone. Merges, a forced merge and a failover to another copy of the
// shard write other segments with the same numbers.
//
// Segments that both commits have (by the id that Lucene draws for each) can only have lost documents in between: only their
// deletions are compared. Of the others two columns are read, once in each commit, in passes over ranges of numbers, so that memory is
// bounded: two bits for each number up to the highest one of the earlier commit, regardless of the size of the shard.
//
// An update is a gone version and a new one. Telling it from a deletion and an insertion takes the ids of both: Documents reads them, for
// these documents only. What it reads of stored fields are parts of files, whose checksums cannot be compared: damage is found where a
// chunk cannot be decompressed or parsed.
//
// Where numbers do not determine the difference, the error of New is a *Whole with the reason. NewByContents compares such a shard by ids
// and sources, and reads every document of the segments that only one commit has.
package difference
