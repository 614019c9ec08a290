// Package classes sorts failed documents by the necessary repair: one class, one remedy.
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
	Remedy string // what to do before a redrive; INDEX and FIELD stand for names

	types []string // error types of the target, or reasons of rfsd
	words []string // parts of the message
}

// Other is the class of failures that no class describes.
var other = Class{
	Name: "other", Cause: "a reason that has no class of its own",
	Remedy: "read the target's message in the file of failed documents; repair what it names",
}

// Of returns the class of a failure: the first of All that fits.
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

// Named returns the class of a name; false if no class has it.
func Named(name string) (Class, bool) {
	all := All()
	if i := slices.IndexFunc(all, func(c Class) bool { return c.Name == name }); i >= 0 {
		return all[i], true
	}
	return Class{}, false
}

// Known reports whether the class describes the failure: all but the last of All do.
func (c Class) Known() bool { return c.Name != other.Name }

// fits reports whether one of the types or one of the words is that of the failure.
func (c Class) fits(reason, detail string) bool {
	return slices.Contains(c.types, reason) || slices.ContainsFunc(c.words, func(w string) bool { return strings.Contains(detail, w) })
}

// For returns the remedy with the names that are known: of the index, and of the field that a message names.
func (c Class) For(index, detail string) string {
	text := c.Remedy
	if index != "" {
		text = strings.ReplaceAll(text, "INDEX", index)
	}
	if field := fieldIn(detail); field != "" {
		text = strings.ReplaceAll(text, "FIELD", field)
	}
	return text
}

// fieldIn returns the name of the field in a message of a target; "" if it names none.
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

const maxField = 200 // bytes of a name that is shown
