package extract

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/files"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/document/rules"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Result lists the files and the omissions.
type Result struct {
	Files []File `json:"files"`
	// Left lists the objects in no file: saved objects that OpenSearch Dashboards does not import, policies without an equivalent, and parts of
	// others.
	Left []Left `json:"left_out"`
}

// File describes a written file.
type File struct {
	Name    string `json:"name"` // relative to the directory
	Objects int    `json:"objects"`
	// Tenant is the tenant or the space whose saved objects the file holds; "": the global tenant, or the default space.
	Tenant string `json:"tenant,omitempty"`
	// Apply names the request or the program that imports the file.
	Apply string `json:"apply"`
}

// Left counts objects, or parts of objects, that are in no file.
type Left struct {
	What   string `json:"what"`
	Count  int    `json:"count"`
	Reason string `json:"reason"`
}

// extractor writes the files.
type extractor struct {
	snap    *snapshot.Snapshot
	dir     string
	titles  titles
	users   bool
	drafts  map[string]*files.Draft // by name
	objects map[string]int
	tenants map[string]string // by file name
	// requests maps a file name to the request that applies the file, where that differs from file to file.
	requests map[string]string
	left     map[[2]string]int // by what and reason
}

// Options select which files are written.
type Options struct {
	Overrides metadata.Overrides // index patterns are renamed like indices
	Rules     *rules.Set         // applied after Overrides; nil: none
	Users     bool               // include users with their password hashes
}

// Files writes files into an empty directory: saved objects as one NDJSON file for each tenant and each Kibana space, for OpenSearch
// Dashboards; the configuration of the security plugin in the format of its files; and snapshot policies as request bodies of Snapshot
// Management. Errors: fault.ErrConfig if the directory is not empty, fault.ErrCorrupt, and errors of reading the repository and of writing.
// After an error no file is left.
func Files(ctx context.Context, snap *snapshot.Snapshot, dir string, o Options) (Result, error) {
	if err := prepare(dir); err != nil {
		return Result{}, err
	}
	x := newExtractor(dir, o)
	x.snap = snap
	for _, i := range snap.Indices {
		x.titles.indices = append(x.titles.indices, i.Name)
	}
	err := x.dashboards(ctx)
	if err == nil {
		err = x.security(ctx)
	}
	if err == nil {
		err = x.policies(ctx)
	}
	for _, name := range slices.Sorted(maps.Keys(x.drafts)) {
		if err != nil {
			err = errors.Join(err, x.drafts[name].Drop())
			continue
		}
		err = x.drafts[name].Commit()
	}
	return x.result(), err
}

func newExtractor(dir string, o Options) *extractor {
	return &extractor{
		dir: dir, users: o.Users, titles: titles{overrides: o.Overrides, rules: o.Rules},
		drafts: map[string]*files.Draft{}, objects: map[string]int{}, tenants: map[string]string{}, requests: map[string]string{}, left: map[[2]string]int{},
	}
}

// prepare creates the directory. It returns a fault.ErrConfig if it is not empty.
func prepare(dir string) error {
	if err := files.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty: name a new directory, or an empty one: %w", dir, fault.ErrConfig)
	}
	return err
}

func (x *extractor) result() Result {
	r := Result{Files: []File{}, Left: []Left{}}
	for _, name := range slices.Sorted(maps.Keys(x.objects)) {
		r.Files = append(r.Files, File{name, x.objects[name], x.tenants[name], x.apply(name)})
	}
	for key, n := range x.left {
		r.Left = append(r.Left, Left{key[0], n, key[1]})
	}
	slices.SortFunc(r.Left, func(a, b Left) int { return cmp.Or(cmp.Compare(a.What, b.What), cmp.Compare(a.Reason, b.Reason)) })
	return r
}

// apply returns the request or program that imports a file.
func (x *extractor) apply(name string) string {
	switch filepath.Ext(name) {
	case ".ndjson":
		return "POST api/saved_objects/_import"
	case ".yml":
		return "securityadmin.sh"
	}
	return x.requests[name]
}

// maxLeft is the maximum number of distinct omissions that are listed.
const maxLeft = 1000

func (x *extractor) leave(what, reason string) {
	key := [2]string{what, reason}
	if _, known := x.left[key]; !known && len(x.left) >= maxLeft {
		key = [2]string{"others", "more than are listed"}
	}
	x.left[key]++
}

// savedPrefixes are the prefixes of the names of indices with saved objects.
var savedPrefixes = []string{".kibana", ".opensearch_dashboards"}

// states are prefixes of indices that match savedPrefixes but hold no saved objects.
var states = []string{".kibana_task_manager", ".kibana_security_session", ".kibana-event-log", ".kibana-observability"}

// dashboards writes the saved objects of the current generation of indices.
func (x *extractor) dashboards(ctx context.Context) error {
	for _, i := range x.snap.Indices {
		has := func(p string) bool { return strings.HasPrefix(i.Name, p) }
		if !slices.ContainsFunc(savedPrefixes, has) || slices.ContainsFunc(states, has) {
			continue
		}
		index, err := x.snap.Index(ctx, i.Name)
		if err != nil {
			return err
		}
		aliases := slices.Sorted(maps.Keys(creation.AliasNames(index.Aliases)))
		if generation.MatchString(i.Name) && len(aliases) == 0 {
			x.leave("index "+i.Name, "a former generation: no alias refers to it")
			continue
		}
		tenant := tenantOf(append(aliases, i.Name))
		err = creation.ReadIndex(ctx, x.snap, index, func(d *doc.Document) error { return x.add(tenant, d) })
		if err != nil {
			return fmt.Errorf("index %s: %w", i.Name, err)
		}
	}
	return nil
}

// generation matches the suffix that migrations of saved objects add to index names, as in .kibana_2 and .kibana_8.8.0_001.
var generation = regexp.MustCompile(`_\d+$`)

// tenant matches the name that the security plugin gives an index with the saved objects of a tenant.
var tenant = regexp.MustCompile(`^\.(?:kibana|opensearch_dashboards)_-?\d{3,}_([^_]+)(?:_\d+)?$`)

// tenantOf returns the tenant of an index with these names; "" if it belongs to none.
func tenantOf(names []string) string {
	for _, name := range names {
		if m := tenant.FindStringSubmatch(name); m != nil {
			return m[1]
		}
	}
	return ""
}

// notRenamed is the reason why an index pattern keeps its text.
var notRenamed = fmt.Sprintf("not renamed: more than %d indices that it matches get names of no common pattern", maxNames)

// add writes the saved object of a document, or counts it as left out.
func (x *extractor) add(tenant string, d *doc.Document) error {
	kind, s, err := readSaved(string(d.ID), string(d.Type), d.Source)
	switch {
	case err != nil:
		return err
	case s == nil:
		reason := "OpenSearch Dashboards does not import this type"
		if kind == "config" {
			reason = "settings of one version of Kibana"
		}
		x.leave(fmt.Sprintf("%.100s", cmp.Or(kind, "document without a type")), reason)
		return nil
	}
	for _, name := range s.dropped {
		x.leave("attribute "+name, "the mapping of OpenSearch Dashboards does not take it")
	}
	for _, r := range s.References {
		if _, ok := savedTypes[r.Type]; !ok {
			x.leave(fmt.Sprintf("reference to %.100s", r.Type), "its object is left out: the panel stays empty")
		}
	}
	if s.Type == "index-pattern" {
		left, err := x.titles.rename(s)
		if err != nil {
			return err
		}
		for _, name := range left {
			x.leave(fmt.Sprintf("index pattern %.100s", name), notRenamed)
		}
	}
	line, err := s.line()
	if err != nil {
		return err
	}
	name := fileName(tenant, s.space)
	x.tenants[name] = cmp.Or(tenant, s.space)
	w, err := x.file(name)
	if err == nil {
		_, err = w.Write(line)
	}
	return err
}

// maxFiles is the maximum number of files, which are all open at the same time.
const maxFiles = 500

// file returns the file with that name, opening it if necessary, and counts an object in it.
func (x *extractor) file(name string) (io.Writer, error) {
	x.objects[name]++
	if d := x.drafts[name]; d != nil {
		return d, nil
	}
	if len(x.drafts) == maxFiles {
		return nil, fmt.Errorf("more than %d files of tenants, spaces and policies: %w", maxFiles, fault.ErrUnsupported)
	}
	d, err := files.NewDraft(filepath.Join(x.dir, name), fs.FileMode(0o600))
	if err == nil {
		x.drafts[name] = d
	}
	return d, err
}

// unfit matches characters that names of tenants and spaces may have and file names should not.
var unfit = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// fileName returns the name of the file for the saved objects of a tenant and a space.
func fileName(tenant, space string) string {
	name := "saved-objects"
	for _, part := range []string{tenant, space} {
		if part = unfit.ReplaceAllString(part, "-"); part != "" {
			name += "-" + part[:min(len(part), 100)]
		}
	}
	return name + ".ndjson"
}
