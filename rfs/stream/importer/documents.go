package importer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// decision is the treatment of a document before it is sent.
type decision int

const (
	good decision = iota
	failing
	filtered
)

// decide returns the treatment of a pair, and sets its reason and detail if it fails. An error, such as a missing index,
// ends the process.
func (r *run) decide(ctx context.Context, p *pair) (decision, error) {
	if v := p.decide(r.Types, r.IncludeSystem); v != good {
		return v, nil
	}
	return good, r.ensure(ctx, p.action.Index)
}

// decide returns the treatment of a pair whose index exists.
func (p *pair) decide(types Types, includeSystem bool) decision {
	index := p.action.Index
	if p.reason == "" && !ValidIndex(index) {
		p.reason, p.detail = BadAction, fmt.Sprintf("%q is not a name of an index", index)
	}
	switch {
	case p.reason == "" && LeftOut(index, includeSystem):
		return filtered
	case p.reason == "" && len(p.action.Type) > 0 && string(p.action.Type) != "_doc" && types == RefuseTypes:
		p.reason, p.detail = Typed, fmt.Sprintf("the document has the mapping type %q: choose --emit-doc-type ON or OFF", p.action.Type)
	}
	if p.reason != "" {
		return failing
	}
	if types != EmitTypes || string(p.action.Type) == "_doc" {
		p.action.Type = nil
	}
	return good
}

// ensure calls Indices.Ensure until the target answers.
func (r *run) ensure(ctx context.Context, index []byte) error {
	return r.retry(ctx, func(ctx context.Context) error { return r.Indices.Ensure(ctx, index) })
}

// isSystem reports whether an index belongs to the cluster, by the same rule as in a migration:
// backing indices of data streams are users' data.
func isSystem(name []byte) bool {
	return name[0] == '.' && !bytes.HasPrefix(name, []byte(".ds-"))
}

// ownIndex reports whether an index contains the state of rfsd.
func ownIndex(name []byte) bool {
	return bytes.HasPrefix(name, []byte(".rfs_")) || bytes.HasPrefix(name, []byte(".migrations_working_state"))
}

// LeftOut reports whether documents for a valid index are left out: for rfsd's own indices, and for system indices unless these are
// included.
func LeftOut(name []byte, includeSystem bool) bool {
	return ownIndex(name) || isSystem(name) && !includeSystem
}

// ValidIndex reports whether a cluster may accept the name. It can still reject it for other reasons.
func ValidIndex(name []byte) bool {
	if len(name) == 0 || len(name) > 255 || strings.ContainsRune("-_+", rune(name[0])) || string(name) == "." || string(name) == ".." {
		return false
	}
	for _, c := range name {
		if c <= ' ' || strings.IndexByte(`\/*?"<>|,#:`, c) >= 0 || 'A' <= c && c <= 'Z' {
			return false
		}
	}
	return true
}

// failure returns the record of a pair that cannot be sent.
func (r *run) failure(p *pair) doc.Failure {
	return doc.Failure{
		Index: string(p.action.Index), ID: string(p.action.ID), Type: string(p.action.Type), Routing: string(p.action.Routing),
		Shard: r.window.Number, Ordinal: p.at, Reason: p.reason, Detail: p.detail, Source: bytes.Clone(p.source),
	}
}

// recorder adds the position of the document to each failure.
type recorder struct {
	bulk.Recorder
	window Task
	failed *atomic.Int64
}

func (r *recorder) Record(ctx context.Context, failures []doc.Failure) error {
	for i := range failures {
		where := "byte"
		if r.window.Compression != plain {
			where = "unpacked byte"
		}
		failures[i].Detail = fmt.Sprintf("%s, %s %d: %s", r.window.File, where, failures[i].Ordinal, failures[i].Detail)
	}
	err := r.Recorder.Record(ctx, failures)
	if err == nil {
		r.failed.Add(int64(len(failures)))
	}
	return err
}

// idMaker generates ids for documents without one: always the same for the same offset in the same
// file, so that a repeated window changes nothing.
type idMaker struct{ buf []byte }

// make returns 20 characters of base64url: 120 bits of the SHA-256 of file name, zero byte and offset
// (8 bytes, big-endian). They are borrowed until the next call.
func (m *idMaker) make(file string, at int64) []byte {
	m.buf = append(append(m.buf[:0], file...), 0)
	m.buf = binary.BigEndian.AppendUint64(m.buf, uint64(at))
	sum := sha256.Sum256(m.buf)
	m.buf = base64.RawURLEncoding.AppendEncode(m.buf[:0], sum[:15])
	return m.buf
}
