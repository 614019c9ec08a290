package boltcms_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/testing/cmstest"
	"github.com/rfsd/rfsd/testing/disk"
)

func TestStoreOnAFailingDisk(t *testing.T) {
	for _, c := range []struct {
		name, device string
		category     error
		again        bool // the same store takes writes when the disk is mended
	}{
		{"a full disk is an outage", "/dev/full", fault.ErrUnavailable, true},
		{"a sync that fails ends the store", "/dev/null", fault.ErrConfig, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c.db")
			s, err := boltcms.Open(path, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			before, after := cms.NewItem(cmstest.ID("before", 0, 0), "c", 0), cms.NewItem(cmstest.ID("after", 0, 0), "c", 0)
			if _, err := s.Create(t.Context(), []cms.Item{before}); err != nil {
				t.Fatal(err)
			}
			mend := disk.Break(t, path, c.device)
			if _, err := s.Create(t.Context(), []cms.Item{after}); !errors.Is(err, c.category) {
				t.Errorf("%v, want %v", err, c.category)
			}
			mend()
			n, err := s.Create(t.Context(), []cms.Item{after})
			if c.again != (n == 1 && err == nil) || !c.again && !errors.Is(err, c.category) {
				t.Errorf("mended: %d, %v", n, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = boltcms.Open(path, time.Now); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Get(t.Context(), before.ID); err != nil {
				t.Errorf("what was acknowledged is gone: %v", err)
			}
			if _, err := s.Get(t.Context(), after.ID); (err == nil) != c.again {
				t.Errorf("what was refused: %v", err)
			}
		})
	}
}

// TestTemporaryIsNotSynced: temporary state does not wait for a disk.
func TestTemporaryIsNotSynced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	s, err := boltcms.OpenTemporary(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	mend := disk.Break(t, path, "/dev/null") // takes writes, fails to sync
	_, err = s.Create(t.Context(), []cms.Item{cms.NewItem(cmstest.ID("item", 0, 0), "c", 0)})
	mend()
	if err := errors.Join(err, s.Close()); err != nil {
		t.Error(err)
	}
}
