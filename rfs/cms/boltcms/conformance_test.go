package boltcms_test

import (
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/cmstest"
)

func TestConformance(t *testing.T) {
	cmstest.Run(t, func(t *testing.T) cms.Store {
		s := open(t, filepath.Join(t.TempDir(), "cms.db"))
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	})
}
