// Package creation creates on the target what a plan needs: indices and data streams ([Indices]), and objects that belong to no index, such
// as templates ([Globals]). It never changes existing objects, and rejects a target that is the source ([CheckSource]).
package creation
