// Package resend decides by the records of a session how its failed documents are sent again: which of them are its own, where their
// sources are, what the target does with documents that it has, and to which indices a redrive may write.
package resend
