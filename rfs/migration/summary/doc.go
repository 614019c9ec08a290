// Package summary sums up the result of a migration from the coordination store: [Of] reads the records of phases, indices and items of a
// session. The numbers are sums over the items, so that they add up after any number of deaths.
package summary
