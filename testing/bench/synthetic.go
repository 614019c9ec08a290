package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// multiply makes a repository in dir whose snapshot has n indices, each with the files of the one index of a source: symbolic
// links, so that it takes no space. All files but the catalog are those that a real cluster wrote.
func multiply(s *source, dir string, n int) error {
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
	if id == "" || lookup[id] == nil {
		return fmt.Errorf("the catalog of %s is of another form", s.Repo)
	}
	if err := os.MkdirAll(filepath.Join(dir, "indices"), 0o755); err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(dir, "indices", id), os.DirFS(filepath.Join(s.Repo, "indices", id))); err != nil {
		return err
	}
	for i := range n - 1 {
		copied := fmt.Sprintf("%022d", i)
		if err := os.Symlink(id, filepath.Join(dir, "indices", copied)); err != nil {
			return err
		}
		catalog.Indices[fmt.Sprintf("%s-%d", indexName, i)] = map[string]any{"id": copied, "snapshots": one["snapshots"], "shard_generations": one["shard_generations"]}
		lookup[copied] = lookup[id]
	}
	files, err := os.ReadDir(s.Repo)
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.IsDir() || f.Name() == "index-0" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(s.Repo, f.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, f.Name()), b, 0o644); err != nil {
			return err
		}
	}
	if raw, err = json.Marshal(catalog); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "index-0"), raw, 0o644)
}

// bucket answers the reading requests of S3 with the files of a directory, each after a time. It checks no signature.
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

// list answers with the files of the repository's root.
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
