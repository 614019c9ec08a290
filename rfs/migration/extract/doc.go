// Package extract writes files with the state of a cluster that a snapshot holds but no migration creates on a target: saved objects, the
// security configuration and snapshot policies. The target's own tools import these files.
package extract
