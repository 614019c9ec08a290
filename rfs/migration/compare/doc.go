// Package compare reads both sides of a comparison of a snapshot with a target: the documents of the snapshot as a migration sends them
// ([Comparison]), the documents of the target ([Target]), and the fields of their mappings ([Fields]). Package verify compares them.
package compare
