package snapshot

import "github.com/rfsd/rfsd/rfs/base/fault"

// Limits of nested objects in a metadata blob. Its text can be short: the decoded form holds the path of each field, and an object is
// parsed again for each object around it. Indices of 300,000 fields and more stay within both.
const (
	// maxPaths bounds the paths of all objects together, in bytes.
	maxPaths = 64 << 20
	// maxNested bounds the lengths of all objects together, in bytes: a byte in ten objects counts ten times.
	maxNested = 2 << 30
)

// nesting is an open object or array.
type nesting struct{ begin, path int }

// fewPaths returns an error if the objects of a JSON text exceed the limits.
func fewPaths(name string, b []byte) error {
	var open []nesting
	paths, nested, path := 0, 0, 0 // path is the length of the current value's path
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			begin := i + 1
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			path = len(".") + min(i, len(b)) - begin
			if len(open) > 0 {
				path += open[len(open)-1].path
			}
		case '{':
			paths += path
			open = append(open, nesting{i, path})
		case '[':
			if len(open) > 0 { // the values of an array have its path
				path = open[len(open)-1].path
			}
			open = append(open, nesting{i, path})
		case ',':
			if path = 0; len(open) > 0 {
				path = open[len(open)-1].path
			}
		case '}', ']':
			if len(open) > 0 {
				nested += i - open[len(open)-1].begin
				open = open[:len(open)-1]
			}
		}
		if paths > maxPaths || nested > maxNested {
			return fault.Corrupt(name, "", -1, "its objects are nested too deep: their paths are more than %d bytes together, or their texts more than %d", maxPaths, maxNested)
		}
	}
	return nil
}
