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

// Entry holds what a worker needs to know about an index to process any of its items. It is stored when the work is seeded, so that a
// worker only reads the manifest of its shard.
type Entry struct {
	Locator snapshot.Locator `json:"locator"`
	Naming  Naming           `json:"naming"`
	Shards  int              `json:"shards"`
	// Bytes are the sizes of the shards in the repository, for estimating the remaining time; empty if they were not read.
	Bytes []int64 `json:"bytes,omitempty"`
	// Reduced is the reason why stored sources differ from the indexed documents according to the mapping; "" if they do not.
	Reduced string `json:"reduced,omitempty"`
	// Rebuild is the method by which missing sources are rebuilt; "" if they are stored or cannot be rebuilt.
	Rebuild Rebuild `json:"rebuild,omitempty"`
	// Unread means that the metadata of the index is damaged, so its shards and target indices are unknown.
	Unread bool `json:"unread,omitempty"`
	// Originals means that the target filters its sources as the index of the snapshot does, so the original (_recovery_source) is sent where
	// it is stored.
	Originals bool `json:"originals,omitempty"`
	// Lacking states which stored forms of documents lack indexed parts.
	Lacking doc.Lacking `json:"lacking,omitzero"`
	// KeepLast states that only the last of several members with the same key is sent.
	KeepLast bool `json:"keep_last,omitempty"`
	// Stream is set for the backing index of a data stream.
	Stream *metadata.StreamPart `json:"data_stream,omitempty"`
	// Create means that documents are created in the data stream Naming.Index of the target.
	Create bool `json:"create,omitempty"`
	// Trial is set in a trial run.
	Trial *Trial `json:"trial,omitempty"`
	// Version is the position of the snapshot in its chain: the target version of each document is 2·Version+1, of each deletion 2·Version. 0:
	// the session belongs to no chain.
	Version int64 `json:"version,omitempty"`
	// Since is the index in the former snapshot of the chain; nil: the former snapshot does not have it.
	Since *Since `json:"since,omitempty"`
	// Former holds the UUIDs of the target indices with the documents of a former index, which was recreated since.
	Former map[string]string `json:"former,omitempty"`
	// Held holds the number of documents in target indices that had any when this session first planned the index.
	Held map[string]int64 `json:"held,omitempty"`
	// HeldChosen means that --existing-documents was given then.
	HeldChosen bool `json:"held_chosen,omitempty"`
	// Before holds the number of operations that existing target indices had executed when this session first planned the index.
	Before map[string]int64 `json:"before,omitempty"`
	// Ours are the target indices that this session created; all others existed before.
	Ours []string `json:"ours,omitempty"`
	// Empty are target indices that existed, but had neither documents nor operations when this session first planned the index.
	Empty []string `json:"empty,omitempty"`
	// Differs lists how the created indices differ from the request, for example because of templates of the target.
	Differs []string `json:"differs,omitempty"`
	// Arrival is the comparison of the target with the documents sent; nil before the audit.
	Arrival *progress.Arrival `json:"arrival,omitempty"`
	// Late are the aliases, by target index, that are withheld until the documents of the index are complete.
	Late map[string]json.RawMessage `json:"late_aliases,omitempty"`
	// Dropped are the aliases, by target index, that only the index of the former snapshot has; they are removed when Late is set.
	Dropped map[string][]string `json:"dropped_aliases,omitempty"`
	// RefusedAliases are the aliases of Late that the target rejected.
	RefusedAliases []progress.RefusedAlias `json:"refused_aliases,omitempty"`
	// Managed means that the policies of the source, if any, are attached to the target indices of this session.
	Managed bool `json:"managed,omitempty"`
	// PolicyWaits means that no policy was attached because documents were missing.
	PolicyWaits bool `json:"policy_waits,omitempty"`
	// RefusedPolicies are the policies that could not be attached.
	RefusedPolicies []progress.RefusedPolicy `json:"refused_policies,omitempty"`

	Ends map[int][]int64 `json:"-"` // ends of the parts of split shards, as in session.IndexEntry.Ends; set only for leases
}

// Size returns the size of the index in the repository, in bytes; 0 if it was not read.
func (e Entry) Size() (sum int64) {
	for _, n := range e.Bytes {
		sum += n
	}
	return sum
}

// Own reports whether this session created all target indices or found them empty.
func (e Entry) Own() bool {
	return !slices.ContainsFunc(e.Naming.Targets(), func(name string) bool {
		return !slices.Contains(e.Ours, name) && !slices.Contains(e.Empty, name)
	})
}

// Distinct reports whether all documents of the index have distinct ids: it has one shard, and its documents keep their ids.
func (e Entry) Distinct() bool {
	return e.Shards == 1 && len(e.Naming.Types) <= 1 && e.Naming.Join == nil && e.Stream == nil
}

// Encode returns the entry as JSON for the coordination store.
func (e Entry) Encode() (json.RawMessage, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("index entry %s: %w", e.Locator.IndexName, err)
	}
	return b, nil
}

// DecodeEntry decodes the entry of an index from the coordination store. The entry is not trusted: the caller compares it with the snapshot
// and the settings. Errors are fault.ErrCorrupt.
func DecodeEntry(index string, b []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("index entry %s in the coordination store: %w: %w", index, err, fault.ErrCorrupt)
	}
	return e, nil
}

// Existing returns the treatment of existing documents for an entry. Data streams only accept new documents.
func (e Entry) Existing(chosen bulk.Existing) bulk.Existing {
	switch {
	case e.Create:
		return bulk.Keep
	case e.Version != 0:
		return bulk.Follow
	}
	return chosen
}
