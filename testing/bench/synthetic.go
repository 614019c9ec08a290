package main

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// multiply creates a repository in dir whose snapshot has n indices, each with the shards of a source's only index. The files are linked,
// so they take no space. Catalog and metadata differ from the original only in the names. If data is false, the blobs with documents of the
// additional indices are left out.
func multiply(s *source, dir string, n int, data bool) error {
	raw, err := os.ReadFile(filepath.Join(s.Repo, "index-0"))
	if err != nil {
		return err
	}
	var catalog struct {
		Snapshots   []map[string]any          `json:"snapshots"`
		Indices     map[string]map[string]any `json:"indices"`
		MinVersion  string                    `json:"min_version"`
		Identifiers map[string]string         `json:"index_metadata_identifiers"`
	}
	if err := json.Unmarshal(raw, &catalog); err != nil {
		return err
	}
	one := catalog.Indices[indexName]
	id, _ := one["id"].(string)
	lookup, _ := catalog.Snapshots[0]["index_metadata_lookup"].(map[string]any)
	identifier, _ := lookup[id].(string)
	if id == "" || catalog.Identifiers[identifier] == "" {
		return fmt.Errorf("the catalog of %s is of another form", s.Repo)
	}
	name := "meta-" + catalog.Identifiers[identifier] + ".dat"
	metadata, err := os.ReadFile(filepath.Join(s.Repo, "indices", id, name))
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(s.Repo)); err != nil {
		return err
	}
	shards, err := filepath.Glob(filepath.Join(dir, "indices", id, "[0-9]*"))
	if err != nil {
		return err
	}
	for i := range n - 1 {
		index, copied := copyName(i), fmt.Sprintf("%022d", i)
		folder := filepath.Join(dir, "indices", copied)
		if err := os.Mkdir(folder, 0o755); err != nil {
			return err
		}
		for _, shard := range shards {
			to := filepath.Join(folder, filepath.Base(shard))
			if err := os.Mkdir(to, 0o755); err != nil {
				return err
			}
			prefixes := []string{"snap-", "index-"}
			if data {
				prefixes = append(prefixes, documentBlobs)
			}
			if err := link(shard, to, prefixes...); err != nil {
				return err
			}
		}
		own, err := renamed(metadata, index)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name), own, 0o644); err != nil {
			return err
		}
		catalog.Indices[index] = map[string]any{"id": copied, "snapshots": one["snapshots"], "shard_generations": one["shard_generations"]}
		lookup[copied] = identifier
	}
	if raw, err = json.Marshal(catalog); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "index-0"), raw, 0o644)
}

// copyName returns the name of the i-th index created by multiply, which has the length of the original name.
func copyName(i int) string { return fmt.Sprintf("b%0*d", len(indexName)-1, i) }

// documentBlobs is the prefix of blobs with Lucene files.
const documentBlobs = "__"

// link links the files of one directory whose names have one of the prefixes into another directory.
func link(from, to string, prefixes ...string) error {
	files, err := os.ReadDir(from)
	for _, f := range files {
		if err == nil && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(f.Name(), p) }) {
			err = os.Link(filepath.Join(from, f.Name()), filepath.Join(to, f.Name()))
		}
	}
	return err
}

// renamed returns a blob of index metadata with another name of the same length: a Lucene header, SMILE, which may be compressed, and a
// footer with the CRC.
func renamed(blob []byte, index string) ([]byte, error) {
	const headLen, footerLen = 4 + 1 + len("index-metadata") + 4, 16
	if len(blob) < headLen+footerLen {
		return nil, fmt.Errorf("index metadata of %d bytes", len(blob))
	}
	head, body := blob[:headLen], blob[headLen:len(blob)-footerLen]
	if packed, ok := bytes.CutPrefix(body, []byte("DFL\x00")); ok {
		var err error
		if body, err = io.ReadAll(flate.NewReader(bytes.NewReader(packed))); err != nil {
			return nil, fmt.Errorf("index metadata: %w", err)
		}
	}
	out := append(bytes.Clone(head), bytes.ReplaceAll(body, []byte(indexName), []byte(index))...)
	return sealed(out), nil
}

// bucket serves read requests of S3 from the files of a directory, each after a delay. It does not verify signatures.
type bucket struct {
	dir   string
	after time.Duration
}

func (b bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	time.Sleep(b.after)
	name := strings.TrimPrefix(r.URL.Path, "/"+bucketName)
	if r.URL.Query().Has("list-type") {
		b.list(w, r.URL.Query().Get("prefix"))
		return
	}
	f, err := os.Open(filepath.Join(b.dir, filepath.FromSlash(name)))
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "<Error><Code>NoSuchKey</Code></Error>")
		return
	}
	defer f.Close()
	w.Header().Set("ETag", `"1"`)
	http.ServeContent(w, r, "", time.Unix(1, 0), f)
}

const bucketName = "bench"

// list lists the files in the root of the repository.
func (b bucket) list(w http.ResponseWriter, prefix string) {
	files, err := os.ReadDir(b.dir)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, "<ListBucketResult><IsTruncated>false</IsTruncated>")
	for _, f := range files {
		if info, err := f.Info(); err == nil && !f.IsDir() && strings.HasPrefix(f.Name(), prefix) {
			fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>%d</Size></Contents>", f.Name(), info.Size())
		}
	}
	fmt.Fprint(w, "</ListBucketResult>")
}
