package session

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

const kindPrior = "prior"

// Prior is the content of a target index before the session sent its first document there.
type Prior struct {
	Index     string `json:"index,omitempty"` // its name
	Documents int64  `json:"documents"`
	// Chosen means that the user has chosen what happens to these documents.
	Chosen bool `json:"chosen,omitempty"`
	// Untouched means that the index had neither documents nor operations.
	Untouched bool `json:"untouched,omitempty"`
	// UUID is the UUID of the index; "": unknown, or the name is an alias or a data stream.
	UUID string `json:"uuid,omitempty"`
}

func priorID(index string) string {
	return fmt.Sprintf("%s:%x", kindPrior, sha256.Sum256([]byte(index)))
}

// Read returns the record of a target index, or ErrNotFound.
func (s Priors) Read(ctx context.Context, index string) (Prior, error) {
	var h Prior
	r, err := s.leases.Record(ctx, priorID(index))
	if err != nil {
		return h, err
	}
	return h, r.Decode(&h)
}

// All returns the records of all target indices.
func (s Priors) All(ctx context.Context) (all []Prior, err error) {
	for r, err := range s.leases.List(ctx, kindPrior) {
		var h Prior
		if err == nil {
			err = r.Decode(&h)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
}

// Note records the content of a target index, unless another process did before, and returns the record.
func (s Priors) Note(ctx context.Context, index string, h Prior) (Prior, error) {
	h.Index = index
	body, err := json.Marshal(h)
	if err != nil {
		return h, err
	}
	if _, err := s.leases.Create(ctx, cms.Record{ID: priorID(index), Kind: kindPrior, Body: body}); err != nil {
		return h, err
	}
	return s.Read(ctx, index)
}

// Choose records that the user has chosen what happens to the documents that an index had.
func (s Priors) Choose(ctx context.Context, index string) error {
	h, err := s.Read(ctx, index)
	if errors.Is(err, cms.ErrNotFound) || err == nil && h.Chosen {
		return nil
	}
	if err != nil {
		return err
	}
	h.Chosen = true
	body, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return s.leases.Put(ctx, cms.Record{ID: priorID(index), Kind: kindPrior, Body: body})
}
