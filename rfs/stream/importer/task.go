package importer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Kind is the kind of the items of an import.
const Kind = "import"

const (
	// taskVersion is the version of the serialized form of tasks.
	taskVersion = 3
	// mostParts is the approximate maximum number of parts of all divisible files.
	mostParts = 20_000
)

// Task is one part of a file, serialized in its items: an item of the part covers the bytes from its cursor to
// the start of its successor, or to the end of the part. The task of the setup has only Part, which all processes use.
type Task struct {
	Version     int         `json:"v"`
	Kind        string      `json:"kind"` // import
	File        string      `json:"file"` // relative to the source
	Number      int         `json:"number"`
	Size        int64       `json:"size"` // of the file, bytes
	From        int64       `json:"from"` // range of bytes of the file; always all of a compressed file
	To          int64       `json:"to"`
	Compression compression `json:"compression"`
	Part        int64       `json:"part,omitempty"` // bytes of a part of a divisible file
}

func encode(t Task) string {
	b, _ := json.Marshal(t) // strings and numbers only
	return string(b)
}

func decodeTask(s string) (Task, error) {
	var t Task
	if err := json.Unmarshal([]byte(cmp.Or(s, "{}")), &t); err != nil { // setups of earlier versions have none
		return t, fmt.Errorf("task: %w: %w", err, fault.ErrCorrupt)
	}
	if t.Version != taskVersion || t.Kind != Kind {
		return t, fmt.Errorf("the import of this session was started by another version of rfsd (its items are of kind %q, version %d, this one knows %d): finish it with that version, or start it again with another --session-name: %w",
			t.Kind, t.Version, taskVersion, fault.ErrConfig)
	}
	if t.From < 0 || t.From > t.To || t.To > t.Size {
		return t, fmt.Errorf("task for bytes %d to %d of %d: %w", t.From, t.To, t.Size, fault.ErrCorrupt)
	}
	return t, nil
}

// partSize returns the size of the parts of divisible files in bytes: window, or more if the parts would be too many.
func partSize(files []file, window int64) int64 {
	var total int64
	for _, f := range files {
		if f.packed == plain {
			total += f.size
		}
	}
	return max(window, total/mostParts)
}

// parts yields the first item of each part of the files. A compressed file is one part. Only items of other files have an end.
func parts(files []file, size int64) iter.Seq[cms.Root] {
	return func(yield func(cms.Root) bool) {
		for number, f := range files {
			part := 0
			for from := int64(0); from < f.size; part++ {
				to := f.size
				if f.packed == plain && to-from > size+size/2 { // no tiny part at the end
					to = from + size
				}
				task := encode(Task{Version: taskVersion, Kind: Kind, File: f.name, Number: number, Size: f.size, From: from, To: to, Compression: f.packed})
				root := cms.Root{ID: cms.ItemID{Kind: Kind, Index: cms.IndexFor(f.name), Shard: part, Cursor: from}, Task: task}
				if f.packed == plain {
					root.End = to
				}
				if !yield(root) {
					return
				}
				from = to
			}
		}
	}
}

// Counts counts documents by their results.
type Counts struct {
	Documents int64 `json:"documents"` // read: Indexed + Kept + Failed + Filtered
	Indexed   int64 `json:"indexed"`
	Kept      int64 `json:"kept,omitempty"` // the target kept its own
	Failed    int64 `json:"failed"`         // recorded with the reason
	Filtered  int64 `json:"filtered"`       // left out by choice
	Bytes     int64 `json:"bytes"`          // of sources indexed or failed
	Retried   int64 `json:"retried,omitempty"`
	Resent    int64 `json:"resent,omitempty"`
	Replaced  int64 `json:"replaced,omitempty"` // these three as in cms.Counts
}

func countsOf(c cms.Counts) Counts {
	return Counts{
		Documents: c.Live, Indexed: c.Indexed, Kept: c.Kept, Failed: c.Failed, Filtered: c.Filtered, Bytes: c.Bytes,
		Retried: c.Retried, Resent: c.Resent, Replaced: c.Replaced,
	}
}
