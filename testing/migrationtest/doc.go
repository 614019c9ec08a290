// Package migrationtest holds what tests of migrations share: a coordination store in memory ([Memory], [SlowStore]), clusters that keep
// what was asked of them ([Outside]), processes that die at a chosen call ([Life], [Seen]), and one shard of a fixture whose item is
// leased again and again ([OneShard]).
package migrationtest
