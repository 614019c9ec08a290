package plan

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Entry holds what a worker needs of an index to run any of its items. It is
// stored when the work is seeded, so that a worker reads only its shard's manifest.
type Entry struct {
	Locator snapshot.Locator `json:"locator"`
	Naming  Naming           `json:"naming"`
	Shards  int              `json:"shards"`
	// Bytes are the sizes of the shards in the repository, for the estimate of the
	// remaining time; absent when they were not read.
	Bytes []int64 `json:"bytes,omitempty"`
	// Reduced is the reason why stored sources differ from the indexed documents ("" when they do not), from the mapping.
	Reduced string `json:"reduced,omitempty"`
	// Rebuild is the way in which missing sources are rebuilt; "" when they are stored, or cannot be rebuilt.
	Rebuild Rebuild `json:"rebuild,omitempty"`
	// Unread means that the metadata of the index is damaged: neither shards nor target indices are known.
	Unread bool `json:"unread,omitempty"`
	// Originals means that the target leaves out of its sources what the index of the snapshot leaves out: the original
	// (_recovery_source) is sent where it is stored.
	Originals bool `json:"originals,omitempty"`
	// Lacking states which of the stored forms of documents lack indexed parts.
	Lacking doc.Lacking `json:"lacking,omitzero"`
	// KeepLast states that of members of one object with the same key only the last is sent.
	KeepLast bool `json:"keep_last,omitempty"`
	// Stream is set for the backing index of a data stream.
	Stream *metadata.StreamPart `json:"data_stream,omitempty"`
	// Create means that documents are created in a data stream of the target, which Naming.Index names.
	Create bool `json:"create,omitempty"`
	// Trial is set in a trial run.
	Trial *Trial `json:"trial,omitempty"`
	// Version orders the snapshots of a chain: 2·Version+1 is the version of each document on the target, 2·Version the version of each
	// deletion. 0: the session belongs to no chain.
	Version int64 `json:"version,omitempty"`
	// Since is the index in the former snapshot of the chain; nil: the former snapshot lacks it.
	Since *Since `json:"since,omitempty"`
	// Former are the UUIDs of the target indices that hold the documents of a former index, which was recreated since.
	Former map[string]string `json:"former,omitempty"`
	// Held are the target indices that had documents when this session planned the index for the first time, and how many.
	Held map[string]int64 `json:"held,omitempty"`
	// HeldChosen means that --existing-documents was given then, so that it need not be asked for.
	HeldChosen bool `json:"held_chosen,omitempty"`
	// Before holds how many operations target indices that were there before had executed when this session planned the index for the
	// first time.
	Before map[string]int64 `json:"before,omitempty"`
	// Ours are the target indices that this session created; all others were there before.
	Ours []string `json:"ours,omitempty"`
	// Empty are target indices that were there before, but had neither documents nor operations when this session planned the
	// index for the first time.
	Empty []string `json:"empty,omitempty"`
	// Differs lists how the created indices differ from the request, for example by templates of the target.
	Differs []string `json:"differs,omitempty"`
	// Arrival holds the counts of the target when all documents were sent; absent before.
	Arrival *progress.Arrival `json:"arrival,omitempty"`
	// Late are aliases, by target index, that are set when the documents of the index are complete.
	Late map[string]json.RawMessage `json:"late_aliases,omitempty"`
	// Dropped are aliases, by target index, that the index of the former snapshot has and this one lacks; they are removed with Late.
	Dropped map[string][]string `json:"dropped_aliases,omitempty"`
	// RefusedAliases are the aliases of Late that the target refused when they were set.
	RefusedAliases []progress.RefusedAlias `json:"refused_aliases,omitempty"`
	// Managed means that the target indices of this session have the policies of the source, as far as it had any.
	Managed bool `json:"managed,omitempty"`
	// PolicyWaits means that documents were missing when the policies of the others were attached.
	PolicyWaits bool `json:"policy_waits,omitempty"`
	// RefusedPolicies are policies that were not attached when the documents were complete.
	RefusedPolicies []progress.RefusedPolicy `json:"refused_policies,omitempty"`

	Ends map[int][]int64 `json:"-"` // of the parts of split shards, as session.IndexEntry.Ends; set where leases need it
}

// Size returns the size of the index in the repository, in bytes; 0 when it was not read.
func (e Entry) Size() (sum int64) {
	for _, n := range e.Bytes {
		sum += n
	}
	return sum
}

// Own reports whether this session created all target indices, or found them empty.
func (e Entry) Own() bool {
	return !slices.ContainsFunc(e.Naming.Targets(), func(name string) bool {
		return !slices.Contains(e.Ours, name) && !slices.Contains(e.Empty, name)
	})
}

// Distinct reports whether no two documents of the index share an id: it has one shard, whose documents keep their ids.
func (e Entry) Distinct() bool {
	return e.Shards == 1 && len(e.Naming.Types) <= 1 && e.Naming.Join == nil && e.Stream == nil
}

// Encode returns e as the coordination store keeps it.
func (e Entry) Encode() (json.RawMessage, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("index entry %s: %w", e.Locator.IndexName, err)
	}
	return b, nil
}

// DecodeEntry returns the entry of an index out of the coordination store. It is unchecked input: the caller compares it with the
// snapshot and the settings. Errors are fault.ErrCorrupt.
func DecodeEntry(index string, b []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("index entry %s in the coordination store: %w: %w", index, err, fault.ErrCorrupt)
	}
	return e, nil
}

// Existing returns the treatment of documents of an entry whose ids the target has. Data streams take new documents only.
func (e Entry) Existing(chosen bulk.Existing) bulk.Existing {
	switch {
	case e.Create:
		return bulk.Keep
	case e.Version != 0:
		return bulk.Follow
	}
	return chosen
}
