// Package boltstore opens coordination stores for tests.
package boltstore

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
)

// Open returns a coordination store in a file of its own, which is closed at the end of the test.
func Open(t testing.TB) *boltcms.Store {
	t.Helper()
	store, err := boltcms.Open(filepath.Join(t.TempDir(), "state.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}
