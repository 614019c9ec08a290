// Package creation creates on the target what a plan needs: indices and data streams ([Indices]), and what belongs to no index, such as
// templates ([Globals]). It never changes what exists, and refuses a target that is the source ([CheckSource]).
package creation
