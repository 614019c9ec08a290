package importer

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/rfsd/rfsd/rfs/fault"
)

// kind is the name of this kind of task; prefix begins the ids of its partitions.
const (
	kind   = "import"
	prefix = kind + "/"
)

// taskVersion is the version of the serialized form.
const taskVersion = 1

// Task is one window as it is serialized into its partition.
type Task struct {
	Version     int         `json:"v"`
	Kind        string      `json:"kind"` // import
	File        string      `json:"file"` // relative to the source
	Number      int         `json:"number"`
	Size        int64       `json:"size"` // of the file, bytes
	From        int64       `json:"from"` // bytes of the file; of a compressed one always all
	To          int64       `json:"to"`
	Compression compression `json:"compression"`
}

func (t Task) encode() ([]byte, error) {
	b, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("task for %s: %w", t.File, err)
	}
	return b, nil
}

func decodeTask(b []byte) (Task, error) {
	var t Task
	if err := json.Unmarshal(b, &t); err != nil {
		return t, fmt.Errorf("task: %w: %w", err, fault.ErrCorrupt)
	}
	if t.Version != taskVersion || t.Kind != kind {
		return t, fmt.Errorf("task of kind %q, version %d, made by another version of rfsd: %w", t.Kind, t.Version, fault.ErrConfig)
	}
	if t.From < 0 || t.From > t.To || t.To > t.Size {
		return t, fmt.Errorf("task for bytes %d to %d of %d: %w", t.From, t.To, t.Size, fault.ErrCorrupt)
	}
	return t, nil
}

// partitionID names the partition of a window.
func partitionID(n int64) string { return fmt.Sprintf("%012d", n) }

// number is the window's of a partition of that name.
func number(id string) (n int64, ok bool) {
	n, err := strconv.ParseInt(id, 10, 64)
	return n, err == nil
}

// Counts says what became of documents.
type Counts struct {
	Documents int64 `json:"documents"` // read: Indexed + Kept + Failed + Filtered
	Indexed   int64 `json:"indexed"`
	Kept      int64 `json:"kept,omitempty"` // the target had them already
	Failed    int64 `json:"failed"`         // recorded with reason
	Filtered  int64 `json:"filtered"`       // left out by choice
	Bytes     int64 `json:"bytes"`          // of sources indexed or failed
}

func (c *Counts) add(d Counts) {
	c.Documents += d.Documents
	c.Indexed += d.Indexed
	c.Failed += d.Failed
	c.Filtered += d.Filtered
	c.Kept += d.Kept
	c.Bytes += d.Bytes
}

// progress is what a holder reports: everything that begins below Offset is durably done, and
// what became of it. Who takes the window over goes on from there.
type progress struct {
	Offset  int64 `json:"offset"`
	Attempt int   `json:"attempt"` // in which Offset last moved
	Counts
}

func decodeProgress(b []byte) (progress, error) {
	var p progress
	if b == nil {
		return p, nil
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fmt.Errorf("progress: %w: %w", err, fault.ErrCorrupt)
	}
	return p, nil
}

func (p progress) encode() json.RawMessage {
	b, _ := json.Marshal(p) // numbers only
	return b
}
