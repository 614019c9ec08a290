package shards

import (
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// namer applies a Naming to documents without allocating memory for each.
type namer struct {
	naming plan.Naming
	index  []byte
	byType map[string][]byte
	id     []byte
}

func newNamer(n plan.Naming) *namer {
	m := &namer{naming: n, index: []byte(n.Index), byType: map[string][]byte{}}
	for _, t := range n.Types {
		m.byType[t] = []byte(n.Index + "_" + t)
	}
	return m
}

// name sets index, id and type of a document. A type that did not exist when the work was planned means that the snapshot differs from the
// planned one.
func (m *namer) name(d *doc.Document) error {
	d.Index = m.index
	switch {
	case m.naming.Emit:
		return nil
	case m.naming.Multi == plan.SplitTypes:
		index, ok := m.byType[string(d.Type)]
		if !ok {
			return fmt.Errorf("document type %q was not seen when the work was planned: %w", d.Type, fault.ErrCorrupt)
		}
		d.Index = index
	case m.naming.Multi == plan.UnionTypes:
		m.id = append(append(append(m.id[:0], d.Type...), '#'), d.ID...)
		d.ID = m.id
	}
	d.Type = nil
	return nil
}
