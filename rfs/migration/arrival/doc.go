// Package arrival compares what target indices hold with the documents sent to them, at the end of a migration or an import.
//
// A [Check] groups the indices of a session by their targets, counts documents and operations on the cluster ([Counts]), and derives
// a finding from the counts. Missing documents are read from the snapshot and sent again once, unless that could restore documents that
// other clients deleted. The result is a progress.Arrival for each index of the snapshot. [OfFiles] does the same for documents from
// files.
package arrival
