package verify

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"
	"unicode/utf8"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

const (
	// longName is the longest name of a unit, in bytes as base64, that its items are named by.
	longName = 400
	// documentsPerSecond is the assumed minimum rate of reading a target. It determines the length of the first lease of a shard.
	documentsPerSecond = 2000
)

// plan is the part of the work that all processes have to agree on, in addition to the identity.
type plan struct {
	Buckets map[string]int      `json:"buckets"` // by target index
	Units   map[string]planUnit `json:"units"`   // by side and name
}

type planUnit struct {
	Key        string `json:"key"`
	Generation int    `json:"generation,omitempty"` // how often its content has changed while the comparison was interrupted
	Exponent   int    `json:"exponent,omitempty"`   // of the first lease
}

// exponentFor returns the exponent of a lease that suffices to read the documents in one go.
func exponentFor(initial time.Duration, documents int64) (k int) {
	for k < cms.MaxExponent && (initial<<k).Seconds()/2 < float64(documents)/documentsPerSecond {
		k++
	}
	return k
}

func (s *session) planID() string { return fmt.Sprintf("%s:plan:%d", s.state.Run, s.state.Plan) }

// plan returns the plan of the state; one without units when it is gone.
func (s *session) plan(ctx context.Context) (p plan, err error) {
	b, err := s.blob(ctx, s.planID())
	if errors.Is(err, cms.ErrNotFound) {
		return p, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	return p, err
}

// units reports whether two plans have the same units and target indices.
func (p plan) units(o plan) bool {
	return maps.EqualFunc(p.Units, o.Units, func(planUnit, planUnit) bool { return true }) && maps.EqualFunc(p.Buckets, o.Buckets, func(int, int) bool { return true })
}

// settled reports whether the content of all units is known to be what it was.
func (p plan) settled(o plan) bool {
	return maps.EqualFunc(p.Units, o.Units, func(a, b planUnit) bool { return a.Key == b.Key && a.Key != "" })
}

// renew marks units to be read again if their content has changed since they were read, or may have, and reports
// whether it marked any.
func (p plan) renew(o plan) (changed bool) {
	for name, u := range p.Units {
		if is := o.Units[name]; is.Key != u.Key || is.Key == "" {
			p.Units[name] = planUnit{Key: is.Key, Generation: u.Generation + 1, Exponent: is.Exponent}
			changed = true
		}
	}
	return changed
}

// adopt makes p the plan of this process.
func (s *session) adopt(p plan) {
	for side := range s.byRoot {
		s.byRoot[side] = map[string]*unitOf{}
	}
	for _, x := range s.groups {
		for name, c := range x.all {
			c.buckets = p.Buckets[name]
		}
		for side, units := range x.units {
			for _, u := range units {
				is := p.Units[u.plan]
				u.exponent, u.root = is.Exponent, cms.ItemID{Kind: s.kind(side), Index: itemName(u.plan, is.Generation)}
				s.byRoot[side][u.root.Index] = u
			}
		}
	}
}

// itemName is the name of a unit in the ids of its items: a digest, where the name does not fit an id.
func itemName(unit string, generation int) string {
	if generation > 0 {
		unit = fmt.Sprintf("%s, read anew %d", unit, generation)
	}
	if utf8.ValidString(unit) && base64.RawURLEncoding.EncodedLen(len(unit)) <= longName {
		return unit
	}
	sum := sha256.Sum256([]byte(unit))
	return "sha256-" + hex.EncodeToString(sum[:])
}
