// Package migrationtest holds helpers for tests of migrations: a coordination store in memory ([Memory], [SlowStore]), clusters that record
// their requests ([Outside]), processes that die at a chosen call ([Life], [Seen]), and one shard of a fixture whose item is leased
// repeatedly ([OneShard]).
package migrationtest
