// Package arrival compares what target indices hold with the documents sent to them, at the end of a migration or an import.
//
// A [Check] groups the indices of a session by their targets, counts documents and operations on the cluster ([Counts]), and decides
// what the numbers prove. Documents that are missing are read from the snapshot and sent again once, where that cannot bring back what
// other clients deleted. The result is a progress.Arrival for each index of the snapshot. [OfFiles] does the same for documents that
// came out of files.
package arrival
