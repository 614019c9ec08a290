package snapshot

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Snapshot is one snapshot of a repository.
type Snapshot struct {
	Ref
	Indices            []IndexRef // by name
	DataStreams        []string
	Failures           []ShardFailure
	IncludeGlobalState bool
	StartMillis        int64 // epoch ms
	EndMillis          int64 // epoch ms
	TotalShards        int
	Reason             string

	catalog *Catalog
	pinned  int64  // point in time of a remote store, in epoch ms; 0: the snapshot lists its shards
	legacy  bool   // Elasticsearch 1.x form: plain JSON blobs by name
	blob    string // the snapshot's own blob
}

// IndexRef is an index of a snapshot by name and repository id.
type IndexRef struct {
	Name string
	ID   string
}

// ShardFailure is a shard that the snapshot reports as failed.
type ShardFailure struct {
	Index  string
	Shard  int
	Reason string
}

// Snapshot reads the snapshot's own blob. Errors: fault.ErrConfig that lists the existing names if none matches; fault.ErrCorrupt.
func (c *Catalog) Snapshot(ctx context.Context, name string) (*Snapshot, error) {
	ref, err := c.Find(name)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{Ref: ref, catalog: c, blob: "snap-" + ref.UUID + ".dat"}
	b, done, err := readJSON(ctx, c.repo, s.blob, codecSnapshot)
	defer func() { done() }()
	if missing(err) && ref.UUID == ref.Name {
		// Elasticsearch 1.x, also in a repository that later versions continued to use.
		s.legacy, s.blob = true, "snapshot-"+ref.Name
		b, done, err = readJSON(ctx, c.repo, s.blob, "")
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", name, referenced(s.blob, c.blob, err))
	}
	if err := s.parse(ctx, b); err != nil {
		return nil, err
	}
	return s, nil
}

// Listed returns a snapshot as the catalog alone describes it, with the names of its indices, whose metadata can be read; nil if the
// catalog does not list the indices of every snapshot (Elasticsearch 1.x and 2.x), or has no snapshot of that name. Only the snapshot's own
// blob states whether it is complete.
func (c *Catalog) Listed(name string) *Snapshot {
	ref, err := c.Find(name)
	if err != nil || ref.UUID == ref.Name {
		return nil
	}
	s := &Snapshot{Ref: ref, catalog: c, blob: "snap-" + ref.UUID + ".dat"}
	if err := s.findIndices(context.Background(), nil); err != nil { // reads only the catalog
		return nil
	}
	return s
}

func (s *Snapshot) parse(ctx context.Context, b []byte) error {
	var doc struct {
		Snapshot *struct {
			Name        string            `json:"name"`
			UUID        string            `json:"uuid"`
			State       string            `json:"state"`
			Version     string            `json:"version"`
			VersionID   int64             `json:"version_id"`
			Indices     []json.RawMessage `json:"indices"`
			DataStreams []string          `json:"data_streams"`
			GlobalState *bool             `json:"include_global_state"`
			Start       int64             `json:"start_time"`
			End         int64             `json:"end_time"`
			TotalShards int               `json:"total_shards"`
			Pinned      int64             `json:"pinned_timestamp"` // epoch ms; OpenSearch 2.17 and later
			Reason      string            `json:"reason"`
			Failures    []struct {
				Index  string `json:"index"`
				Shard  int    `json:"shard_id"`
				Reason string `json:"reason"`
			} `json:"failures"`
		} `json:"snapshot"`
	}
	if err := unmarshalList(s.blob, b, &doc); err != nil {
		return err
	}
	if doc.Snapshot == nil {
		return fault.Corrupt(s.blob, "", -1, "it describes no snapshot")
	}
	d := doc.Snapshot
	if d.Indices == nil { // every version writes the list; without a checksum (1.x) this detects its loss
		return fault.Corrupt(s.blob, "", -1, "it lists no indices")
	}
	if d.Name != s.Name || d.UUID != "" && d.UUID != s.UUID {
		return fault.Corrupt(s.blob, "", -1, "it describes snapshot %q %s, not %q %s", d.Name, d.UUID, s.Name, s.UUID)
	}
	s.pinned = max(d.Pinned, 0)
	if d.State != "" {
		s.State = State(d.State)
	}
	if s.State != InProgress && !slices.Contains(stateNumbers, s.State) {
		return fault.Corrupt(s.blob, "", -1, "state %q of the snapshot is unknown", s.State)
	}
	if s.Version == "" && d.VersionID > 0 {
		s.Version = versionText(d.VersionID)
	}
	s.DataStreams, s.Reason, s.TotalShards = d.DataStreams, d.Reason, d.TotalShards
	s.StartMillis, s.EndMillis = d.Start, d.End
	s.IncludeGlobalState = d.GlobalState == nil || *d.GlobalState
	for _, f := range d.Failures {
		s.Failures = append(s.Failures, ShardFailure{Index: f.Index, Shard: f.Shard, Reason: firstLine(f.Reason)})
	}
	return s.findIndices(ctx, d.Indices)
}

// findIndices sets the indices of the catalog that belong to the snapshot, or for 1.x and 2.x the indices that the snapshot itself lists.
func (s *Snapshot) findIndices(ctx context.Context, listed []json.RawMessage) error {
	for name, x := range s.catalog.indices {
		if s.catalog.holds(x, s.UUID) {
			s.Indices = append(s.Indices, IndexRef{Name: name, ID: x.id})
		}
	}
	have := map[string]bool{}
	for _, x := range s.Indices {
		have[x.Name] = true
	}
	for i, raw := range listed {
		if i%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var name nameOrObject
		if err := unmarshal(s.blob, raw, &name); err != nil {
			return err
		}
		if have[name.Name] {
			continue
		}
		if s.UUID != s.Name {
			return fault.Corrupt(s.catalog.blob, "", -1, "index %s of snapshot %s is not in the catalog", name.Name, s.Name)
		}
		s.Indices = append(s.Indices, IndexRef{Name: name.Name, ID: name.Name})
	}
	slices.SortFunc(s.Indices, func(a, b IndexRef) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// versionText returns an internal version number as text: 7100299 is 7.10.2.
func versionText(id int64) string {
	const openSearchMask = 0x08000000
	if id&openSearchMask != 0 && id < 2*openSearchMask {
		id ^= openSearchMask
	}
	if id%100 != 99 { // releases end in 99, index versions do not
		return fmt.Sprintf("index version %d", id)
	}
	return fmt.Sprintf("%d.%d.%d", id/1_000_000, id/10_000%100, id/100%100)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// Global returns the metadata of the cluster: templates, settings, scripts, as JSON by kind.
func (s *Snapshot) Global(ctx context.Context) (map[string]json.RawMessage, error) {
	name, codec := s.globalBlob()
	b, done, err := readJSON(ctx, s.catalog.repo, name, codec)
	defer done()
	if err != nil {
		return nil, fmt.Errorf("global metadata: %w", referenced(name, s.blob, err))
	}
	var doc map[string]map[string]json.RawMessage
	if err := fewPaths(name, b); err != nil {
		return nil, err
	}
	if err := unmarshalList(name, b, &doc); err != nil {
		return nil, err
	}
	if g, ok := doc["meta-data"]; ok {
		return g, nil
	}
	return nil, fault.Corrupt(name, "", -1, "it holds no cluster metadata")
}

func (s *Snapshot) globalBlob() (name, codec string) {
	if s.legacy {
		return "metadata-" + s.Name, ""
	}
	return "meta-" + s.UUID + ".dat", codecMetadata
}

// Absence returns why the snapshot need not hold a shard; "" when it has to.
func (s *Snapshot) Absence(index string, shard int) string {
	for _, f := range s.Failures {
		if f.Index == index && f.Shard == shard {
			return cmp.Or(f.Reason, "no reason is recorded")
		}
	}
	switch s.State {
	case Failed:
		return cmp.Or(s.Reason, "it failed")
	case InProgress:
		return "it is not finished"
	}
	return ""
}
