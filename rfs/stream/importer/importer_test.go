package importer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

func TestEveryDocumentOfEveryFileArrivesOnceAndIsCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		want, counts := w.corpus()
		w.write(".rfsd/items/x.ndjson", "not an export\n")
		w.write("a/3-0.ndjson", "")
		s := run(t, w.node())
		w.arrived(want)
		if !s.Complete || once(s.Counts) != counts || s.Files != 4 || s.GivenUp != 0 || s.Windows < 10 || s.FileBytes != s.Size {
			t.Errorf("%+v, want %+v", s, counts)
		}
		if w.target.sent != len(want) {
			t.Errorf("%d documents were sent, there are %d", w.target.sent, len(want))
		}
		again := run(t, w.node())
		if w.target.sent != len(want) || once(again.Counts) != counts || !again.Complete {
			t.Errorf("a second run sent something: %+v", again)
		}
	})
}

func TestManyNodesShareTheWindows(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		want, counts := w.corpus()
		w.target.takes = time.Second // of virtual time: none is done before others have come
		var nodes []*importer.Import
		done := make(chan error)
		for range 5 {
			m := w.node(func(m *importer.Import) { m.Workers = 1 })
			nodes = append(nodes, m)
			go func() {
				_, err := m.Run(t.Context())
				done <- err
			}()
		}
		for range nodes {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		w.arrived(want)
		busy := 0
		for _, m := range nodes {
			if s := m.Seen(); !s.Complete || once(s.Counts) != counts {
				t.Errorf("%+v", s)
			}
			if m.Own().Windows > 0 {
				busy++
			}
		}
		if busy < 3 {
			t.Errorf("%d of 5 nodes did anything", busy)
		}
	})
}

func TestBrokenLinesAreFailedDocumentsWithTheirPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		text := strings.Join([]string{
			`{"index":{"_index":"i","_id":"1"}}`, `{"a":1}`,
			`{"delete":{"_index":"i","_id":"2"}}`,
			``,
			`{"index":{"_index":"i","_id":"3","version":7}}`, `{"a":3}`,
			`{"index":{"_index":"i","_id":"4"}}`, `no object`,
			`{"index":{"_index":"i"}}`, `{"a":5}`,
			`{"create":{"_index":"i","_id":6,"_routing":"r"}}` + "\r", `{"a":6}` + "\r",
			`{"index":{"_index":"I","_id":"7"}}`, `{"a":7}`,
			`{"index":{"_index":".hidden","_id":"8"}}`, `{"a":8}`,
			`{"index":{"_index":"i","_id":"9","_type":"t"}}`, `{"a":9}`,
			`{"index":{"_index":"i","_id":"10"}}`, `{"bad":"to the target"}`,
			`{"index":{"_index":"i","_id":"12"}}`, "\xEF\xBB\xBF{}",
			`{"index":{"_index":"i","_id":"11"}}`,
		}, "\n")
		w.write("x.ndjson", text)
		w.target.refuse = func(id string) int {
			if id == "10" {
				return 400
			}
			return 0
		}
		s := run(t, w.node(func(m *importer.Import) { m.Window = 1 << 20 }))
		if s.Documents != 12 || s.Indexed != 4 || s.Failed != 7 || s.Filtered != 1 {
			t.Errorf("%+v", s.Counts)
		}
		if w.target.docs["i/1"] != `{"a":1}` || w.target.docs["i/6?r"] != `{"a":6}` || w.target.docs["i/12"] != "\xEF\xBB\xBF{}" || len(w.target.docs) != 4 {
			t.Errorf("%v", w.target.docs)
		}
		var got []string
		for _, f := range w.failed.All() {
			place, _, _ := strings.Cut(f.Detail, ":")
			got = append(got, string(f.Reason)+" "+f.ID+" "+place)
		}
		var want []string
		for _, f := range []struct{ reason, id, line string }{
			{"bad_line", "", `{"delete"`}, {"bad_action", "3", `{"index":{"_index":"i","_id":"3"`}, {"bad_source", "4", `{"index":{"_index":"i","_id":"4"`},
			{"bad_action", "7", `{"index":{"_index":"I"`}, {"mapping_type", "9", `{"index":{"_index":"i","_id":"9"`},
			{"mapper_parsing_exception", "10", `{"index":{"_index":"i","_id":"10"`}, {"no_source_line", "11", `{"index":{"_index":"i","_id":"11"`},
		} {
			want = append(want, fmt.Sprintf("%s %s x.ndjson, byte %d", f.reason, f.id, strings.Index(text, f.line)))
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestSystemIndicesAreLeftAloneAndOurOwnAlways(t *testing.T) {
	for _, system := range []bool{false, true} {
		inBubble(t, func(t *testing.T, w *world) {
			want := map[string]string{"i/1": "{}", ".ds-logs-1/1": "{}"}
			if system {
				want[".kibana/1"] = "{}"
			}
			text := ""
			for _, index := range []string{"i", ".ds-logs-1", ".kibana", ".rfs_control", ".migrations_working_state_x"} {
				text += `{"index":{"_index":"` + index + `","_id":"1"}}` + "\n{}\n"
			}
			w.write("x.ndjson", text)
			s := run(t, w.node(func(m *importer.Import) { m.IncludeSystem = system }))
			if w.arrived(want); s.Filtered != int64(5-len(want)) {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestTypesAreSentOrDroppedOnRequest(t *testing.T) {
	for _, c := range []struct {
		types importer.Types
		want  string
	}{{importer.EmitTypes, "i/t/1"}, {importer.DropTypes, "i/1"}} {
		inBubble(t, func(t *testing.T, w *world) {
			w.write("x.ndjson", `{"index":{"_index":"i","_id":"1","_type":"t"}}`+"\n{}\n"+`{"index":{"_index":"i","_id":"2","_type":"_doc"}}`+"\n{}\n")
			run(t, w.node(func(m *importer.Import) { m.Types = c.types }))
			w.arrived(map[string]string{c.want: "{}", "i/2": "{}"})
		})
	}
}

func TestDocumentsWithoutIDGetTheSameOneEachTime(t *testing.T) {
	ids := map[string]bool{}
	for range 2 {
		inBubble(t, func(t *testing.T, w *world) {
			w.write("x.ndjson", `{"index":{"_index":"i"}}`+"\n"+`{"a":1}`+"\n"+`{"index":{"_index":"i"}}`+"\n"+`{"a":1}`+"\n")
			run(t, w.node())
			for k := range w.target.docs {
				ids[k] = true
			}
		})
	}
	if len(ids) != 2 {
		t.Errorf("ids %v", ids)
	}
}

func TestAMissingIndexStopsTheImportUntilItIsThere(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		want, _ := w.corpus()
		cluster := &cluster{}
		once := func(m *importer.Import) { m.MaxAttempts = 1 }
		for range 12 { // so often that some window comes again, which is no attempt that failed
			_, err := w.node(once, func(m *importer.Import) { m.Indices = &importer.TargetIndices{Cluster: cluster} }).Run(t.Context())
			if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "--create-indices") {
				t.Fatalf("got %v", err)
			}
		}
		if len(w.target.docs) != 0 {
			t.Errorf("%d documents were sent", len(w.target.docs))
		}
		s := run(t, w.node(once, func(m *importer.Import) { m.Indices = &importer.TargetIndices{Cluster: cluster, Creates: true} }))
		if w.arrived(want); !s.Complete || s.GivenUp != 0 || len(cluster.made) != 2 {
			t.Errorf("%+v, created %v", s, cluster.made)
		}
	})
}

// cluster has no index but those that were created.
type cluster struct{ made []string }

func (c *cluster) IndexExists(_ context.Context, name string) (bool, error) {
	for _, m := range c.made {
		if m == name {
			return true, nil
		}
	}
	return false, nil
}

func (c *cluster) CreateIndex(_ context.Context, name string, _ []byte) error {
	c.made = append(c.made, name)
	return nil
}

func TestADamagedFileIsNamedAndTheRestArrives(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		want, _ := w.corpus()
		w.write("c.ndjson", "") // a name for the damage: gzip by its extension, text by its bytes
		w.write("damaged/x.ndjson", "no gzip")
		rename(t, w.dir, "damaged/x.ndjson", "damaged/x.ndjson.gz")
		s := run(t, w.node())
		w.arrived(want)
		if !s.Complete || s.GivenUp != 1 || len(s.Problems) != 1 || s.Problems[0].File != "damaged/x.ndjson.gz" || s.Problems[0].Reason == "" {
			t.Errorf("%+v", s)
		}
	})
}

// TestWhatArrivedBeforeTheDamageIsCounted cuts a compressed file off in its midst.
func TestWhatArrivedBeforeTheDamageIsCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		text := ""
		for n := range 3000 {
			text += fmt.Sprintf(`{"index":{"_index":"i","_id":"%d"}}`+"\n"+`{"n":%d}`+"\n", n, n*n*n*7919%1000003)
		}
		w.write("x.ndjson.gz", text)
		path := filepath.Join(w.dir, "x.ndjson.gz")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b[:len(b)/2], 0o600); err != nil {
			t.Fatal(err)
		}
		s := run(t, w.node(func(m *importer.Import) { m.Workers = 1 }))
		if n := int64(len(w.target.docs)); !s.Complete || s.GivenUp != 1 || n == 0 || s.Indexed != n || s.FileBytes != s.Size {
			t.Errorf("%d documents arrived: %+v", n, s)
		}
	})
}

// TestAnItemThatWasGivenUpIsRetried: an operator opens it again when the file is whole.
func TestAnItemThatWasGivenUpIsRetried(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		want, counts := w.small()
		path := filepath.Join(w.dir, "b.ndjson.gz")
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		damaged := bytes.Clone(whole)
		damaged[len(damaged)-6] ^= 1 // of the checksum
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if s := run(t, w.node()); !s.Complete || s.GivenUp != 1 {
			t.Fatalf("%+v", s)
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, x := range w.account().Windows {
			if x.FailedItem() {
				if err := w.session.Reopen(t.Context(), x.ID, "operator"); err != nil {
					t.Fatal(err)
				}
			}
		}
		if a := w.account(); a.Complete || a.GivenUp != 0 {
			t.Errorf("opened again: %+v", a.Status)
		}
		if s := run(t, w.node()); !s.Complete || once(s.Counts) != counts || s.GivenUp != 0 {
			t.Errorf("%+v, want %+v", s, counts)
		}
		w.arrived(want)
	})
}

func TestNoFilesAreAnErrorThatSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.write("x.json", "{}\n")
		if _, err := w.node().Run(t.Context()); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), ".ndjson") {
			t.Errorf("got %v", err)
		}
	})
}

func TestASessionIsAboutTheFilesThatItBeganWith(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		want, _ := w.corpus()
		run(t, w.node())
		w.write("late.ndjson", `{"index":{"_index":"i","_id":"late"}}`+"\n{}\n")
		if s, err := w.node().Run(t.Context()); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "--session-name") {
			t.Errorf("%+v, %v: a file that came later was passed over without a word", s, err)
		}
		w.arrived(want)
	})
}

// TestAFrameThatLooksBackFurtherLosesNothing: in the midst of a long line, in both slots of a process at once.
func TestAFrameThatLooksBackFurtherLosesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		want := map[string]string{}
		for _, name := range []string{"a.ndjson.zst", "b.ndjson.zst"} {
			id, long := name[:1], `{"s":"`+strings.Repeat("x", 5<<20)+`"}`
			want["i/"+id+"0"], want["i/"+id+"1"], want["i/"+id+"2"] = `{"n":0}`, long, `{"n":2}`
			action := func(n int) string { return fmt.Sprintf(`{"index":{"_index":"i","_id":"%s%d"}}`+"\n", id, n) }
			first := action(0) + `{"n":0}` + "\n" + action(1) + long[:len(long)-100]
			w.raw(name, wide(t, first, 8<<20)+wide(t, long[len(long)-100:]+"\n"+action(2)+`{"n":2}`+"\n", 128<<20))
		}
		s := run(t, w.node(func(m *importer.Import) { m.Frames = budget.New(importer.MaxBack, 0) }))
		w.arrived(want)
		if !s.Complete || s.Documents != 6 || s.Indexed != 6 || s.GivenUp != 0 || w.target.sent != 6 {
			t.Errorf("%d sent: %+v", w.target.sent, s)
		}
	})
}

// wide returns a zstd frame of the text that looks back so far.
func wide(t *testing.T, text string, back int) string {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithWindowSize(8<<20), zstd.WithSingleSegment(false), zstd.WithEncoderConcurrency(1))
	if err == nil {
		_, err = z.Write([]byte(text))
	}
	if err = errors.Join(err, z.Flush(), z.Close()); err != nil {
		t.Fatal(err)
	}
	packed := b.Bytes()
	packed[5] = byte((bits.Len(uint(back)) - 11) << 3) // the window's descriptor
	return string(packed)
}

// fastClock is ten minutes ahead.
type fastClock struct{ timing.Clock }

func (c fastClock) Read() timing.Reading {
	r := c.Clock.Read()
	r.Wall = r.Wall.Add(10 * time.Minute)
	return r
}

func TestImport_RefusesAClockThatIsWrong(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.corpus()
		_, err := w.node(func(m *importer.Import) { m.Clock, m.SkewTolerance = fastClock{w.clock}, timing.DefaultTolerance }).Run(t.Context())
		if !errors.Is(err, cms.ErrClockSkew) || !strings.Contains(err.Error(), "10m0s off") || len(w.target.docs) > 0 {
			t.Errorf("%v; %d documents", err, len(w.target.docs))
		}
	})
}
