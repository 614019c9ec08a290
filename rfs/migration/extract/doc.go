// Package extract writes what a snapshot holds of a cluster's own state, and no migration creates on a target, as files for the tools
// that import it there.
package extract
