// Package wiring opens what a command works with, according to its settings: repositories, targets, the state of the work, export directories
// and places of failed documents. The commands of rfsd run what it has put together.
//
// Options describe one run, made of its settings (ForMigration, ForImport, …). Resources count and bound the work of one worker; the
// workers inside a daemon have a Shared. OpenMigration, OpenImport, OpenStream and OpenRedrive put the parts of a session together.
package wiring
