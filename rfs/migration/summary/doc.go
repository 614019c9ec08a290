// Package summary computes the result of a migration from the coordination store: [Of] reads the records of phases, indices and items of a
// session. The numbers are sums over the items, so they are correct after any number of crashes.
package summary
