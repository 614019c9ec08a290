package lucene

// IDKind describes how a document's id is stored (FORMATS §10.1: decided per field, not per version).
type IDKind uint8

// The forms of a stored id.
const (
	IDNone   IDKind = iota // no stored id: a nested child
	IDString               // _id stored as string: the literal id (5.x with mapping.single_type)
	IDBinary               // _id stored as binary: encoded, Elasticsearch 6+ and OpenSearch
	IDUID                  // _uid stored as string "type#id", Elasticsearch 1.x–5.x
	IDSeries               // not stored: ID, Timestamp and RoutingHash together, time series of Elasticsearch 9.5
)

// Record is the part of one live Lucene document that a migration needs: raw stored
// fields. All slices are borrowed: they are valid until the reader's next step.
type Record struct {
	// Ordinal is the Lucene docID plus the maxDoc of all earlier segments of the
	// commit, segments ordered by name as strings, dead segments included.
	Ordinal int64
	Segment *Segment
	DocID   int32 // docID within the segment

	IDKind IDKind
	ID     []byte // nil when IDKind is IDNone
	// Timestamp and RoutingHash (in the form of a binary _id) belong to IDSeries, whose ID is the _tsid.
	Timestamp   int64
	RoutingHash []byte
	Routing     []byte // nil when not stored
	Parent      []byte // _parent as stored by 1.x and 2.x ("type#id"); nil when not stored

	// HasSource is also set, with Source, by those who put a source together that is not stored (Rebuilt).
	HasSource      bool
	Source         []byte // _source as stored; may be empty even when HasSource
	HasRecovery    bool
	RecoverySource []byte // _recovery_source as stored
	// Giant marks a document for which Memory.Hold was asked. Beyond and RecoveryBeyond are the lengths of a source and of
	// an original that are longer than Memory.MaxSource: they were not read; 0 for none.
	Giant                  bool
	Beyond, RecoveryBeyond int64
	Rebuilt                bool  // Source was put together out of Values
	Unbuilt                error // why it could not be
	Patched                bool  // the form that is sent has all vectors that were left out of it
	// Values are the other fields of the document; nil unless ReadOptions.Values asks for them.
	Values *Values

	Version int64 // 0 unless ReadOptions.Versions asks for it

	SyntheticParts bool // _ignored_source or similar is stored: the source is synthetic

	drop func() // nil unless Giant
}

// Drop gives up the memory of a Giant record before the reader's next step: its slices are nil then.
func (r *Record) Drop() {
	if r.drop != nil {
		r.drop()
		r.drop = nil
		r.ID, r.RoutingHash, r.Routing, r.Parent, r.Source, r.RecoverySource, r.Values = nil, nil, nil, nil, nil, nil, nil
	}
}
