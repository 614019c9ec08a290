package shards_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// arrival is a document as it is sent.
type arrival struct {
	source           string
	rebuilt, reduced bool
}

// arrivals returns what a migration sends for the indices of a snapshot, by index and id; failures by their detail.
func arrivals(t *testing.T, dir string, req plan.Request) (sent map[string]arrival, failed []string) {
	t.Helper()
	sent, failed, err := tryArrivals(t, dir, req)
	if err != nil {
		t.Fatal(err)
	}
	return sent, failed
}

func tryArrivals(t *testing.T, dir string, req plan.Request) (sent map[string]arrival, failed []string, err error) {
	t.Helper()
	r, err := repo.NewDir(dir)
	if err != nil {
		return nil, nil, err
	}
	req.SnapshotName, req.EmitType, req.MultiType = "snap1", plan.EmitAuto, plan.SplitTypes
	plan, err := plan.New(t.Context(), r, req)
	if err != nil {
		return nil, nil, err
	}
	sent = map[string]arrival{}
	for _, x := range plan.Indices {
		for shard := range x.Entry.Shards {
			err := shards.Read(t.Context(), r, x.Entry, shard, nil, shards.Documents{
				Send: func(d *doc.Document) error {
					sent[x.Name+"/"+string(d.ID)] = arrival{string(d.Source), d.Rebuilt, d.Reduced}
					return nil
				},
				Fail: func(f *doc.Failure) error {
					failed = append(failed, f.Detail)
					return nil
				},
			})
			if err != nil {
				return sent, failed, err
			}
		}
	}
	return sent, failed, nil
}

// TestDamagedColumnsAreNeverOtherValues: whatever byte of a shard's files flips, rebuilt documents are the same, or the error
// names blob, file and offset.
func TestDamagedColumnsAreNeverOtherValues(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "source", "rebuild", "testdata", "7.10.2-switched-off"))); err != nil {
		t.Fatal(err)
	}
	req := plan.Request{RebuildSources: true, RebuildText: true}
	want, _ := arrivals(t, dir, req)
	blobs, err := filepath.Glob(filepath.Join(dir, "indices", "*", "0", "__*"))
	if err != nil || len(blobs) == 0 {
		t.Fatal("no blobs", err)
	}
	damaged := 0
	for _, blob := range blobs {
		whole, err := os.ReadFile(blob)
		if err != nil {
			t.Fatal(err)
		}
		for part := range 3 {
			at := len(whole) * (2*part + 1) / 6
			bad := slices.Clone(whole)
			bad[at] ^= 0x10
			if err := os.WriteFile(blob, bad, 0o644); err != nil {
				t.Fatal(err)
			}
			got, failed, err := tryArrivals(t, dir, req)
			d, isDamage := errors.AsType[*fault.Damage](err)
			switch {
			case isDamage && d.Blob != "" && d.File != "" && d.Offset >= 0:
				damaged++
			case errors.Is(err, fault.ErrUnsupported): // the flip made another name of a format
			case err != nil || len(failed) > 0 || !maps.Equal(got, want):
				t.Errorf("%s, byte %d: %v, failed %v", filepath.Base(blob), at, err, failed)
			}
		}
		if err := os.WriteFile(blob, whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if damaged == 0 {
		t.Error("no damage was found")
	}
}

// TestSwitchedOffSourcesAreRebuiltOnRequest: of each generation, and only on request. Such documents count as reduced.
func TestSwitchedOffSourcesAreRebuiltOnRequest(t *testing.T) {
	const text = "tige du rukemude ko pugemo dika paba bukuka kegu gerubage nimamopi kogebi"
	for _, c := range []struct {
		version     string
		off, filter arrival // of the documents s0
	}{
		{"2.4.6", arrival{`{"n":0,"raw":{"even":true}}`, true, true}, arrival{`{"raw":{"even":true},"n":0}`, false, true}}, // text without a keyword
		{"5.6.16", arrival{`{"n":0,"raw":{"even":true,"text":"` + text + `"}}`, true, true}, arrival{`{"raw":{"even":true,"text":"` + text + `"},"n":0}`, true, true}},
		{"6.8.23", arrival{`{"n":0,"raw":{"even":true,"text":"` + text + `"}}`, true, true}, arrival{`{"raw":{"even":true,"text":"` + text + `"},"n":0}`, true, true}},
		{"7.10.2", arrival{`{"n": 0, "raw": {"text": "` + text + `", "even": true}}`, false, false}, arrival{`{"n": 0, "raw": {"text": "` + text + `", "even": true}}`, false, false}}, // the original
	} {
		t.Run(c.version, func(t *testing.T) {
			dir := filepath.Join("..", "..", "..", "testing", "fixtures", c.version+"-basic")
			sent, failed := arrivals(t, dir, plan.Request{RebuildSources: true})
			if got := sent["nosource/s0"]; got != c.off {
				t.Errorf("switched off: %+v, want %+v", got, c.off)
			}
			if got := sent["partsource/s0"]; got != c.filter {
				t.Errorf("filtered: %+v, want %+v", got, c.filter)
			}
			if len(failed) > 0 {
				t.Errorf("failed: %v", failed)
			}
			sent, failed = arrivals(t, dir, plan.Request{})
			if got, ok := sent["nosource/s0"]; c.off.rebuilt && (ok || len(failed) != 4) || !c.off.rebuilt && got != c.off {
				t.Errorf("not asked: sent %+v, failed %v", got, failed)
			}
			if got := sent["partsource/s0"]; got.rebuilt || !strings.Contains(got.source, `"even"`) || strings.Contains(got.source, "text") {
				t.Errorf("not asked, filtered: %+v", got)
			}
		})
	}
}
