// Package agekey makes keys of age for tests.
package agekey

import (
	"testing"

	"filippo.io/age"
)

// New returns a new pair of keys in age's text form: the public one, and the secret one.
func New(t testing.TB) (public, secret string) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id.Recipient().String(), id.String()
}
