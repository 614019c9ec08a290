package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Kind is a kind of difference.
type Kind string

// The kinds.
const (
	Missing      Kind = "missing"       // the target lacks the document
	Extra        Kind = "extra"         // the source lacks the document
	Changed      Kind = "different"     // the values differ
	SameValue    Kind = "same_value"    // the bytes differ, but not the values: white space, order of keys, 1.0 for 1
	OtherRouting Kind = "other_routing" // the target has the id with another routing
	ChangedSince Kind = "changed_since" // one of the last four, written to the target after the migration
)

// Difference is a difference of one document. Shard and Ordinal refer to the source and are zero for an Extra.
type Difference struct {
	Kind          Kind    `json:"kind"`
	Change        Kind    `json:"change,omitempty"` // of ChangedSince: the kind of the difference itself
	ID            string  `json:"id"`
	Routing       string  `json:"routing,omitempty"`
	TargetRouting *string `json:"target_routing,omitempty"` // of OtherRouting; "" for none
	Path          string  `json:"path,omitempty"`           // of the first difference; "" for the whole document
	Shard         int     `json:"shard"`
	Ordinal       int64   `json:"ordinal"`
}

// explain makes a difference a ChangedSince if the target's document was written after the migration.
func (d *Difference) explain(t *entry) {
	if t.since {
		d.Change, d.Kind = d.Kind, ChangedSince
	}
}

// State is the result for one target index.
type State string

// The states, the worst last.
const (
	Equal State = "equal"
	// Since means that all differences were written to the target after the migration.
	Since         State = "changed_since"
	NotComparable State = "not_comparable" // ids and routings are equal; sources of the target differ from the sent ones
	// FailedDocuments means that all other documents are equal, but documents that the migration reported as failed are missing, or the
	// target has other documents with their ids.
	FailedDocuments State = "failed_documents"
	Unreadable      State = "unreadable" // a part of a side cannot be read, so that the rest proves nothing
	Different       State = "different"
)

// Index is the result for one target index.
type Index struct {
	Target  string   `json:"target"`
	Sources []string `json:"sources"`
	State   State    `json:"state"`
	// NotComparable is the reason why the sources of the target differ from the sent ones.
	NotComparable string   `json:"not_comparable,omitempty"`
	Note          string   `json:"note,omitempty"`
	Problems      []string `json:"problems,omitempty"` // unreadable parts, with reasons
	// SourceDocuments and TargetDocuments count all documents of both sides, compared or not, also with Options.Sample.
	// Count sets them to the numbers of Lucene documents.
	SourceDocuments int64 `json:"source_documents"`
	TargetDocuments int64 `json:"target_documents"`
	SourceSide      Tally `json:"source"`       // of the compared documents
	TargetSide      Tally `json:"target_holds"` // of the compared documents
	// Filtered, Unsent and Failed count documents of the source that are not expected on the target: left out by rules, not
	// sendable (by reason), and named as failed by the account. FailedThere counts the documents of Failed that the target has.
	Filtered    int64            `json:"filtered"`
	Unsent      map[string]int64 `json:"unsent,omitempty"`
	Failed      int64            `json:"failed"`
	FailedThere int64            `json:"failed_there"`
	// FailedDiffer states that the target has all of Failed, some with another routing or other sources.
	FailedDiffer bool `json:"failed_differ,omitempty"`

	failed [2]Tally // of Failed, by side

	// Fields are the fields whose mapping differs from the mapping that the migration creates.
	Fields []FieldDifference `json:"fields,omitempty"`

	Counts           map[Kind]int64 `json:"differences,omitempty"` // of the buckets that were read again
	Overwritten      int64          `json:"overwritten_since"`     // documents of ChangedSince that the source has
	Differences      []Difference   `json:"documents,omitempty"`   // at most Options.Names
	Buckets          int            `json:"buckets"`
	BucketsDifferent int            `json:"buckets_different"`
	NotNamed         NotNamed       `json:"not_named"`
}

// FieldDifference is a field that a target index maps to another type than the migration does, or lacks although documents have values of it.
type FieldDifference struct {
	Field string `json:"field"`
	Want  string `json:"want"`          // the type that the migration creates
	Has   string `json:"has,omitempty"` // the type on the target; absent if the field is missing
}

// NotNamed counts buckets that differ but were not read again, because enough differences are named or they are too large.
type NotNamed struct {
	Buckets   int   `json:"buckets"`
	Documents int64 `json:"documents"` // in them at the source
}

func (n *NotNamed) add(c *comparison, buckets []int) {
	n.Buckets += len(buckets)
	for _, b := range buckets {
		n.Documents += c.sides[ofSource].of(b).Documents
	}
}

// add counts a difference, and keeps it unless most differences are kept already.
func (x *Index) add(d Difference, most int) {
	if x.Counts == nil {
		x.Counts = map[Kind]int64{}
	}
	x.Counts[d.Kind]++
	if d.Kind == ChangedSince && d.Change != Extra {
		x.Overwritten++
	}
	if len(x.Differences) < most {
		x.Differences = append(x.Differences, d)
	}
}

// decide sets the state.
func (x *Index) decide() {
	source, target := x.failed[ofSource], x.failed[ofTarget]
	x.FailedDiffer = source.Documents == target.Documents && (source.Keys != target.Keys || x.NotComparable == "" && source.Exact != target.Exact)
	switch {
	case len(x.Problems) > 0:
		x.State = Unreadable
	case x.NotNamed.Buckets > 0 || len(x.Counts) > 1 || len(x.Counts) == 1 && x.Counts[ChangedSince] == 0:
		x.State = Different
	case x.notArrived() > 0 || x.FailedDiffer:
		x.State = FailedDocuments
	case x.NotComparable != "":
		x.State = NotComparable
	case len(x.Counts) > 0:
		x.State = Since
	default:
		x.State = Equal
		if x.BucketsDifferent > 0 {
			x.Note = "it differed when it was read first and did not when it was read again: the target is being written to"
		}
	}
}

// notArrived returns the number of documents that the migration reported as failed and the target does not have.
func (x *Index) notArrived() int64 {
	n := x.Failed - x.FailedThere
	for _, unsent := range x.Unsent {
		n += unsent
	}
	return n
}

// Report is the result of a run.
type Report struct {
	Version  string    `json:"rfsd"`
	Begin    time.Time `json:"begin"`
	End      time.Time `json:"end"`
	Source   string    `json:"source"`
	Snapshot string    `json:"snapshot,omitempty"`
	Since    string    `json:"since,omitempty"` // only changes since this snapshot are compared
	Target   string    `json:"target"`
	Quick    bool      `json:"quick,omitempty"`  // only numbers of documents are compared
	Sample   float64   `json:"sample"`           // the fraction of ids that is compared; 1 for all
	Strict   bool      `json:"strict,omitempty"` // writes to the target after the migration are differences, too
	State    State     `json:"state"`            // the worst of all
	Indices  []*Index  `json:"indices"`
	Warnings []string  `json:"warnings,omitempty"`
}

// ranks orders the states, the worst last.
var ranks = map[State]int{Equal: 0, Since: 1, NotComparable: 2, FailedDocuments: 3, Unreadable: 4, Different: 5}

// Conclude sets the state of the report to the worst state of its indices. An index with differing fields, and with Strict an index with
// later writes, becomes Different. Conclude adds a warning for every index with at least half of its documents overwritten since the
// migration.
func (r *Report) Conclude() {
	r.State = Equal
	for _, x := range r.Indices {
		if (len(x.Fields) > 0 || r.Strict && x.Counts[ChangedSince] > 0) && x.State != Unreadable {
			x.State = Different
		}
		if n := x.Overwritten; n > 0 && 2*n >= x.SourceSide.Documents {
			r.Warnings = append(r.Warnings, fmt.Sprintf("target index %s: %d of %d documents were overwritten after the migration, so that the target no longer shows what arrived "+
				"(--strict makes each of them a difference)", x.Target, n, x.SourceSide.Documents))
		}
		if ranks[x.State] > ranks[r.State] {
			r.State = x.State
		}
	}
}

// Sealed is a report with its digest.
type Sealed struct {
	Format int             `json:"rfsd_verify"`
	SHA256 string          `json:"sha256"`
	Report json.RawMessage `json:"report"`
}

// Seal returns the report as compact JSON together with its digest: SHA-256 of its bytes.
func (r *Report) Seal() (Sealed, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return Sealed{}, fmt.Errorf("encode report: %w", err)
	}
	report := bytes.TrimSuffix(body.Bytes(), []byte("\n"))
	sum := sha256.Sum256(report)
	return Sealed{1, hex.EncodeToString(sum[:]), report}, nil
}
