//go:build !unix

package config

// ForbidCoreDumps does nothing: this system writes none.
func ForbidCoreDumps() error { return nil }
