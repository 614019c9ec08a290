package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/source/difference"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/cluster"
)

// readRanges records the ranges that are read of each blob of a repository.
type readRanges struct {
	snapshot.Repository
	mu    sync.Mutex
	blobs map[string][]readRange
}

type readRange struct{ off, n int64 }

// Open counts the bytes that are read of what it opens.
func (r *readRanges) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	in, err := r.Repository.Open(ctx, name, off, n)
	if err != nil {
		return nil, err
	}
	return &countedBlob{ReadCloser: in, to: r, name: name, off: off}, nil
}

type countedBlob struct {
	io.ReadCloser
	to     *readRanges
	name   string
	off, n int64
}

// Read counts.
func (b *countedBlob) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	return n, err
}

// Close adds the range.
func (b *countedBlob) Close() error {
	b.to.mu.Lock()
	defer b.to.mu.Unlock()
	b.to.blobs[b.name] = append(b.to.blobs[b.name], readRange{b.off, b.n})
	return b.ReadCloser.Close()
}

// compoundParts returns the places of the files in a compound file, by their names, out of its .cfe of Lucene 8.4 or later.
func compoundParts(t *testing.T, cfe []byte) map[string]readRange {
	t.Helper()
	at := 4
	text := func() string {
		n, k := binary.Uvarint(cfe[at:])
		at += k + int(n)
		return string(cfe[at-int(n) : at])
	}
	order := binary.ByteOrder(binary.BigEndian)
	if strings.HasPrefix(text(), "Lucene90") {
		order = binary.LittleEndian
	}
	at += 4 + 16 + 1
	n, k := binary.Uvarint(cfe[at:])
	at += k
	parts := map[string]readRange{}
	for range n {
		name := text()
		parts[name] = readRange{int64(order.Uint64(cfe[at:])), int64(order.Uint64(cfe[at+8:]))}
		at += 16
	}
	return parts
}

// readBytes are the bytes that a round reads, by kind: all, and without repetitions.
type readBytes struct{ all, once map[string]int64 }

func (b readBytes) sum(of map[string]int64, kinds ...string) (n int64) {
	for kind, k := range of {
		if len(kinds) == 0 {
			n += k
		}
		for _, x := range kinds {
			if kind == x {
				n += k
			}
		}
	}
	return n
}

// kindOf names what a file of a shard has.
func kindOf(name string) string {
	ext := path.Ext(name)
	updated := strings.Count(name, "_") == 4 // _0_1_Lucene90_0.dvd
	switch {
	case ext == ".fdt":
		return "documents"
	case ext == ".liv", ext == ".dvd" && updated:
		return "live"
	case ext == ".dvd":
		return "columns"
	}
	return ext
}

// sort adds up what was read of the shards of two snapshots.
func (r *readRanges) sort(t *testing.T, all []*snapshot.Shard) readBytes {
	t.Helper()
	b := readBytes{map[string]int64{}, map[string]int64{}}
	taken := map[string]bool{}
	for _, s := range all {
		files := map[string]snapshot.File{}
		for _, f := range s.Files {
			files[f.Name] = f
		}
		for _, f := range s.Files {
			name := s.Path + "/" + f.Blob
			if f.Virtual() || taken[name] {
				continue
			}
			taken[name] = true
			parts := map[string]readRange{f.Name: {0, f.Length}}
			if path.Ext(f.Name) == ".cfs" {
				table := files[strings.TrimSuffix(f.Name, "s")+"e"]
				cfe := table.Contents
				if !table.Virtual() {
					in, err := r.Repository.Open(t.Context(), s.Path+"/"+table.Blob, 0, table.Length)
					must(t, err)
					cfe, err = io.ReadAll(in)
					must(t, err)
					must(t, in.Close())
				}
				parts = map[string]readRange{}
				for suffix, at := range compoundParts(t, cfe) {
					parts[strings.TrimSuffix(f.Name, ".cfs")+suffix] = at
				}
			}
			const page = 64
			for name, at := range parts {
				seen := make([]bool, at.n/page+1)
				kind := kindOf(name)
				for _, x := range r.blobs[s.Path+"/"+f.Blob] {
					from, to := max(x.off, at.off)-at.off, min(x.off+x.n, at.off+at.n)-at.off
					if from >= to {
						continue
					}
					b.all[kind] += to - from
					for p := from / page; p*page < to; p++ {
						if !seen[p] {
							seen[p] = true
							b.once[kind] += min((p+1)*page, to) - max(p*page, from)
						}
					}
				}
			}
		}
	}
	return b
}

// numberBytes is what the numbers of a document take in a column here: Lucene writes 20 bits.
const numberBytes = 20. / 8

// unlike returns the number of documents of the segments that only one of the commits of a shard has.
func unlike(t *testing.T, r snapshot.Repository, e plan.Entry) (n float64) {
	t.Helper()
	all := map[string]int{}
	for _, at := range []snapshot.Locator{e.Locator, e.Since.Locator} {
		c, err := difference.OpenCommit(t.Context(), r, at, 0)
		must(t, err)
		for _, s := range c.Segments {
			if all[s.ID()] = s.MaxDoc - all[s.ID()]; all[s.ID()] == 0 {
				delete(all, s.ID())
			}
		}
	}
	for _, k := range all {
		n += float64(k)
	}
	return n
}

// TestFollow_ReadsWhatARoundNeeds counts the bytes that rounds read of a source with merges of its own choice, and a forced one, and
// compares them with the chunks of changed documents, the live documents and the columns of numbers, each read once.
func TestFollow_ReadsWhatARoundNeeds(t *testing.T) {
	n := cluster.OpenSearch(t, "2.19.4")
	wipe(t, n)
	const documents, index = 60_000, "bytes"
	call(t, n, "PUT", "/"+index, map[string]any{"settings": map[string]any{"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "5s"}})
	dice := rand.New(rand.NewPCG(7, 7))
	word := func() string { return fmt.Sprintf("%x", dice.Uint64()) }
	write := func(ids func(yield func(int))) {
		var body strings.Builder
		send := func() {
			if body.Len() == 0 {
				return
			}
			_, err := n.Send(t.Context(), http.MethodPost, "/_bulk", "application/x-ndjson", []byte(body.String()))
			must(t, err)
			body.Reset()
		}
		ids(func(i int) {
			fmt.Fprintf(&body, `{"index":{"_index":%q,"_id":"%d"}}`+"\n"+`{"order":%d,"customer":%q,"total":%d.%02d,"items":[%q,%q],"note":"%s %s %s %s"}`+"\n",
				index, i, i, word(), dice.IntN(1000), dice.IntN(100), word(), word(), word(), word(), word(), word())
			if body.Len() > 4<<20 {
				send()
			}
		})
		send()
	}
	write(func(yield func(int)) {
		for i := range documents {
			yield(i)
		}
	})
	dir := repositoryOn(t, n)
	call(t, n, "PUT", "/_snapshot/bytes", map[string]any{"type": "fs", "settings": map[string]any{"location": dir}})
	take := func(name string) {
		call(t, n, "POST", "/"+index+"/_flush", nil)
		call(t, n, "PUT", "/_snapshot/bytes/"+name+"?wait_for_completion=true", map[string]any{"indices": index})
	}
	changed := func(count int) {
		write(func(yield func(int)) {
			for range count {
				yield(dice.IntN(documents))
			}
		})
	}
	take("s0")
	changed(documents / 1000)
	take("s1")
	for range 10 { // merges of its own choice
		changed(documents / 20)
		call(t, n, "POST", "/"+index+"/_refresh", nil)
	}
	take("s2")
	call(t, n, "POST", "/"+index+"/_forcemerge?max_num_segments=1", nil)
	changed(documents / 1000)
	take("s3")
	r, err := repo.Open(t.Context(), dir, repo.Options{})
	must(t, err)
	for i, name := range []string{"one in a thousand, no merge", "half of them, merges", "one in a thousand, a forced merge"} {
		counted := &readRanges{Repository: r, blobs: map[string][]readRange{}}
		p, err := plan.New(t.Context(), r, plan.Request{SnapshotName: fmt.Sprintf("s%d", i+1), Follow: &plan.Follow{Since: fmt.Sprintf("s%d", i)}})
		must(t, err)
		e := p.Indices[0].Entry
		sent := 0
		count := func(*doc.Document) error { sent++; return nil }
		must(t, shards.ReadChanged(t.Context(), counted, e, 0, nil, slog.New(slog.DiscardHandler), shards.Documents{Send: count, Filter: count, Fail: func(*doc.Failure) error { return nil }}))
		var all []*snapshot.Shard
		for _, at := range []snapshot.Locator{e.Locator, e.Since.Locator} {
			s, err := snapshot.OpenShard(t.Context(), r, at, 0)
			must(t, err)
			all = append(all, s)
		}
		b := counted.sort(t, all)
		needed := float64(b.sum(b.once, "documents", "live")) + numberBytes*unlike(t, r, e)
		t.Logf("%s: %d documents sent, read %d, needed %d: %.3f\n  all  %v\n  once %v", name, sent, b.sum(b.all), int64(needed), float64(b.sum(b.all))/needed, b.all, b.once)
		if float64(b.sum(b.all)) > 1.1*needed {
			t.Errorf("%s: %d bytes were read of %d that are needed", name, b.sum(b.all), int64(needed))
		}
	}
}
