// Package doc is the record that travels from the Lucene reader to the bulk
// requests: one live root document of a snapshot with its exact source.
package doc

// Document is one live root document. All slices are borrowed until the reader's next step.
type Document struct {
	Ordinal int64  // see lucene.Record
	Index   []byte // the index it goes to (after naming rules)
	Type    []byte // mapping type, nil when the source has none or only _doc
	ID      []byte // decoded id, UTF-8
	Routing []byte // nil when none
	// Source is the document as a single line of JSON, byte for byte as it was
	// indexed except for line breaks (see AppendLine).
	Source []byte
	// Reduced reports that Source may lack indexed parts: a filter or the omission of vectors left them out,
	// and no complete original is stored next to it.
	Reduced bool
	// Version is the number that the source cluster gave the document last; 0 when it was not read.
	Version int64
	// Rebuilt means that the source was not stored, but put together out of other fields.
	Rebuilt bool
	// KeptLast states that of members of one object with the same key only the last is left.
	KeptLast bool
	// Delete states that the document is to be removed from the target. It has no Source.
	Delete bool
}

// Reason is the class of a failed document; stable, used for grouping and in documents.
type Reason string

// Reasons of rfsd itself. Rejections by a target have the target's error type.
const (
	NoSource    Reason = "no_source"           // neither _source nor _recovery_source is stored, and it cannot be rebuilt
	NoID        Reason = "no_id"               // a root document without a stored id
	BadID       Reason = "bad_id"              // the stored id cannot be decoded
	LongID      Reason = "id_too_long"         // no target takes an id of that length
	BadSource   Reason = "bad_source"          // the source is not JSON, SMILE, CBOR or YAML that can be sent
	LineBreak   Reason = "raw_line_break"      // a raw line break inside a JSON string
	TooLarge    Reason = "too_large"           // the target takes no request of that size (413)
	Collision   Reason = "id_collision"        // another document has the same id on the same shard of the target
	Foreign     Reason = "replaced_foreign"    // it has replaced a document that another client wrote to a new index
	Dropped     Reason = "dropped_by_pipeline" // an ingest pipeline of the target dropped the document
	MissingType Reason = "missing_type_name"   // a type is needed to name the target index and none is stored
)

// Failure is a live document that did not arrive, and why. It goes to the
// failed-document stream before the watermark passes it.
type Failure struct {
	Index   string
	ID      string // "" when unknown
	Type    string
	Routing string
	Shard   int
	Ordinal int64
	Reason  Reason
	Detail  string // the target's message, or the error in the bytes
	Status  int    // HTTP status of the item, 0 when it was never sent
	Version int64  // Document.Version
	Source  []byte // as stored; may be nil
}
