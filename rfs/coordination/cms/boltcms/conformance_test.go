package boltcms_test

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/testing/cmstest"
)

// opened are the two ways to open a file.
var opened = map[string]func(path string, now func() time.Time) (*boltcms.Store, error){
	"durable":   boltcms.Open,
	"temporary": boltcms.OpenTemporary,
}

func TestConformance(t *testing.T) {
	for name, open := range opened {
		t.Run(name, func(t *testing.T) {
			cmstest.Run(t, func(t *testing.T) cms.Store {
				s, err := open(filepath.Join(t.TempDir(), "cms.db"), time.Now)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
				return s
			})
		})
	}
}

// BenchmarkCreate creates items one by one: one write transaction each, which a durable file syncs.
func BenchmarkCreate(b *testing.B) {
	for name, open := range opened {
		b.Run(name, func(b *testing.B) {
			s, err := open(filepath.Join(b.TempDir(), "cms.db"), time.Now)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			n := 0
			for b.Loop() {
				n++
				if _, err := s.Create(b.Context(), []cms.Item{{ID: strconv.Itoa(n)}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
