// Package mirror lets the leader's reading of the coordination store travel as hints: as parts of which only those are
// written that have changed. A Copy puts the parts together again. What it holds is shown and never decides anything.
package mirror
