// Package difference finds the documents of a shard that differ between two of its commits, each from a snapshot.
//
// Since Elasticsearch 6.0, and in all of OpenSearch, each operation on a shard has a unique sequence number, and each root document
// carries the number of the operation that wrote it (columns _seq_no and _primary_term; class SequenceNumbers). Two commits
// therefore differ by two sets of numbers: a version of a document is new if only the later commit has its number, and gone if only
// the earlier commit has it. Merges, a forced merge and a failover to another copy of the shard write other segments with the same
// numbers.
//
// Segments that both commits have (by the random id that Lucene assigns) can only have lost documents in between: only their
// deletions are compared. Of the others two columns are read, once in each commit, in passes over ranges of numbers, so that memory is
// bounded: two bits for each number up to the highest one of the earlier commit, regardless of the size of the shard.
//
// An update is a gone version and a new one. Distinguishing it from a deletion and an insertion requires the ids of both: Documents
// reads them, for these documents only. It reads only parts of the stored-fields files, so their checksums cannot be compared: damage
// is only found if a chunk cannot be decompressed or parsed.
//
// If numbers do not determine the difference, the error of New is a *Whole with the reason. NewByContents compares such a shard by ids
// and sources, and reads every document of the segments that only one commit has.
package difference
