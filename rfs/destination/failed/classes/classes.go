// Package classes classifies failed documents by their remedy.
package classes

import (
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

// Class is a kind of failure.
type Class struct {
	Name   string
	Cause  string
	Remedy string // required action before a redrive; INDEX and FIELD are placeholders

	types []string // error types of the target, or reasons of rfsd
	words []string // parts of the message
}

// other is the class of failures that no entry of table matches.
var other = Class{
	Name: "other", Cause: "a reason that has no class of its own",
	Remedy: "read the target's message in the file of failed documents; repair what it names",
}

// Of returns the class of a failure: the first of All that matches.
func Of(reason doc.Reason, detail string) Class {
	for _, c := range table {
		if c.fits(string(reason), detail) {
			return c
		}
	}
	return other
}

// All returns the classes in the order in which they are tried.
func All() []Class { return append(slices.Clone(table), other) }

// Named returns the class with a name; false if none has it.
func Named(name string) (Class, bool) {
	all := All()
	if i := slices.IndexFunc(all, func(c Class) bool { return c.Name == name }); i >= 0 {
		return all[i], true
	}
	return Class{}, false
}

// Known reports whether the class is not "other".
func (c Class) Known() bool { return c.Name != other.Name }

// fits reports whether the reason is one of the types, or the message contains one of the words.
func (c Class) fits(reason, detail string) bool {
	return slices.Contains(c.types, reason) || slices.ContainsFunc(c.words, func(w string) bool { return strings.Contains(detail, w) })
}

// For returns the remedy with the name of the index, and of the field that the message names, filled in.
func (c Class) For(index, detail string) string {
	text := c.Remedy
	if index != "" {
		text = strings.ReplaceAll(text, "INDEX", index)
	}
	if field := fieldIn(detail); field != "" {
		text = strings.ReplaceAll(text, "FIELD", field)
	}
	if _, rest, ok := strings.Cut(detail, "] of type ["); ok {
		if kind, _, ok := strings.Cut(rest, "]"); ok && len(kind) <= maxField {
			text = strings.ReplaceAll(strings.ReplaceAll(text, " with the TYPE of the field", ""), "TYPE", kind)
		}
	}
	return text
}

// fieldIn returns the name of the field in a message of the target; "" if it names none.
func fieldIn(detail string) string {
	for _, quote := range [][2]string{{"field [", "]"}, {`field="`, `"`}} {
		_, rest, ok := strings.Cut(detail, quote[0])
		if !ok {
			continue
		}
		if name, _, ok := strings.Cut(rest, quote[1]); ok && len(name) <= maxField {
			return name
		}
	}
	return ""
}

const maxField = 200 // maximum length of a shown name in bytes
