package lucene

// IDKind describes how the id of a document is stored. The field infos of a segment determine it, not the version.
type IDKind uint8

// The forms of a stored id.
const (
	IDNone   IDKind = iota // no stored id: a nested child
	IDString               // _id stored as string: the literal id (5.x with mapping.single_type)
	IDBinary               // _id stored as binary: encoded, Elasticsearch 6+ and OpenSearch
	IDUID                  // _uid stored as string "type#id", Elasticsearch 1.x–5.x
	IDSeries               // not stored: ID, Timestamp and RoutingHash determine it (time series of Elasticsearch 9.5)
)

// Record is the part of one live Lucene document that a migration needs: raw stored fields. All slices are borrowed: they are valid until
// the reader's next step.
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

	// HasSource is also set if a source that is not stored was rebuilt into Source (Rebuilt).
	HasSource      bool
	Source         []byte // _source as stored; may be empty even when HasSource
	HasRecovery    bool
	RecoverySource []byte // _recovery_source as stored
	// Giant marks a long document, for which Memory.Hold was called. Beyond and RecoveryBeyond are the lengths of a _source and a
	// _recovery_source that were not kept because they exceed Memory.MaxSource; else 0.
	Giant                  bool
	Beyond, RecoveryBeyond int64
	Rebuilt                bool  // Source was rebuilt from Values
	Unbuilt                error // why it could not be rebuilt
	Patched                bool  // the vectors that the stored source lacks were restored
	// Values are the other fields of the document; nil unless ReadOptions.Values is set.
	Values *Values

	Version int64 // 0 unless ReadOptions.Versions is set

	SyntheticParts bool // _ignored_source or similar is stored: the source is synthetic

	drop func() // nil unless Giant
}

// Drop releases the memory of a Giant record before the reader's next step. Its slices are nil afterwards.
func (r *Record) Drop() {
	if r.drop != nil {
		r.drop()
		r.drop = nil
		r.ID, r.RoutingHash, r.Routing, r.Parent, r.Source, r.RecoverySource, r.Values = nil, nil, nil, nil, nil, nil, nil
	}
}
