package client

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/cert"
	"github.com/rfsd/rfsd/rfs/base/fault"
)

// peer answers with a reading of a given time, and with one hint of the requested kind.
type peer struct {
	at     time.Time
	packed []byte
}

func (p peer) Hints(kind string) ([]byte, error) { return []byte(`[{"k":"` + kind + `"}]`), nil }

func (p peer) PackedReading(after time.Time) ([]byte, error) {
	if !p.at.After(after) {
		return nil, nil
	}
	return p.packed, nil
}

func TestPeers_AskOtherNodes(t *testing.T) {
	load := authority(t, "blue")
	begin := time.UnixMilli(1_000_000_000_000)
	node := func(p api.Peer) string {
		return serve(t, api.Config{Identity: load("node", "blue"), Peer: p})
	}
	packed := []byte("packed")
	good, alone, lying := node(peer{begin, packed}), node(nil), node(peer{begin, make([]byte, maxAnswer+1)})
	peers := Peers{load("node", "blue")}
	for _, c := range []struct {
		name  string
		nodes []string
		after time.Time
		want  []byte
		err   error
	}{
		{"the first reading", []string{good}, time.Time{}, packed, nil},
		{"a newer one", []string{good}, begin.Add(-time.Millisecond), packed, nil},
		{"none that is newer", []string{good}, begin, nil, nil},
		{"the next node, after one without a fleet", []string{alone, good}, time.Time{}, packed, nil},
		{"the next node, after one that is away", []string{"127.0.0.1:1", good}, time.Time{}, packed, nil},
		{"the next node, after one whose answer has no end", []string{lying, good}, time.Time{}, packed, nil},
		{"no node", []string{alone}, time.Time{}, nil, fault.ErrUnavailable},
		{"an answer without an end", []string{lying}, time.Time{}, nil, fault.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := peers.Reading(t.Context(), c.nodes, c.after)
			if !bytes.Equal(got, c.want) || !errors.Is(err, c.err) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	if hints, err := peers.Hints(t.Context(), []string{alone, good}, "summary"); err != nil || string(hints) != `[{"k":"summary"}]` {
		t.Errorf("%s, %v", hints, err)
	}
	for _, role := range []cert.Role{cert.Operator, cert.Reader} {
		if _, err := (Peers{load(string(role), "blue")}).Reading(t.Context(), []string{good}, time.Time{}); !errors.Is(err, fault.ErrRejected) {
			t.Errorf("%s: %v", role, err)
		}
	}
}
