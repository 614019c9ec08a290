package rules

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

// documentRule changes documents, changes their index or leaves them out.
type documentRule struct {
	match    matcher
	where    *condition // nil: every document
	leaveOut bool
	index    string // "" keeps it
	rename   []renameOp
	drop     []string
	copy     []copyOp
}

type renameOp struct{ from, to string }

type copyOp struct {
	from, to string
	member   []byte // the new member's key and colon
}

func newDocumentRule(e documentEntry) (documentRule, error) {
	m, err := newMatcher(e.Match)
	if err != nil {
		return documentRule{}, err
	}
	r := documentRule{match: m, leaveOut: e.LeaveOut, index: e.Index, drop: e.Drop}
	if e.Where != nil {
		c, err := newCondition(*e.Where)
		if err != nil {
			return r, fmt.Errorf("where: %w", err)
		}
		r.where = &c
	}
	if err := m.checkGroups(e.Index); err != nil {
		return r, fmt.Errorf("index: %w", err)
	}
	for _, x := range e.Drop {
		if err := checkField(x); err != nil {
			return r, fmt.Errorf("drop: %w", err)
		}
	}
	for _, x := range e.Rename {
		if err := errors.Join(checkField(x.From), checkField(x.To)); err != nil {
			return r, fmt.Errorf("rename: %w", err)
		}
		if parent(x.From) != parent(x.To) {
			return r, fmt.Errorf("rename: %s and %s are not in the same object; copy and drop move a field", x.From, x.To)
		}
		r.rename = append(r.rename, renameOp{x.From, x.To})
	}
	for _, x := range e.Copy {
		if err := errors.Join(checkField(x.From), checkField(x.To)); err != nil {
			return r, fmt.Errorf("copy: %w", err)
		}
		r.copy = append(r.copy, copyOp{x.From, x.To, append(doc.AppendString(nil, []byte(x.To)), ':')})
	}
	changes := len(r.rename) + len(r.drop) + len(r.copy)
	switch {
	case r.leaveOut && (changes > 0 || r.index != ""):
		return r, errors.New("documents that are left out cannot be changed, too")
	case !r.leaveOut && changes == 0 && r.index == "":
		return r, errors.New("it does nothing: leave-out, index, rename, drop and copy are missing")
	}
	return r, nil
}

func checkField(path string) error {
	if path == "" || strings.HasPrefix(path, ".") || strings.HasSuffix(path, ".") || strings.Contains(path, "..") {
		return fmt.Errorf("%q is not a name of a field", path)
	}
	return nil
}

func parent(path string) string { return path[:strings.LastIndexByte(path, '.')+1] }

// Editor applies the rules for the documents of one index. It reuses buffers and is used by
// one goroutine.
type Editor struct {
	rules   []documentRule
	targets [][]byte // target index by rule; nil keeps the index
	find    finder
	bufs    [2][]byte
	used    int // element of bufs that contains the source
	most    int // maximum bytes of a result; 0: no limit
}

// Documents returns an Editor for the documents of an index of the snapshot; nil if no rule
// matches the index. s may be nil.
func (s *Set) Documents(index string) *Editor {
	if s == nil {
		return nil
	}
	e := &Editor{}
	for _, r := range s.documents {
		if !r.match.matches(index) {
			continue
		}
		var to []byte
		if r.index != "" {
			name, _ := r.match.expand(index, r.index)
			to = []byte(name)
		}
		e.rules, e.targets = append(e.rules, r), append(e.targets, to)
	}
	if len(e.rules) == 0 {
		return nil
	}
	return e
}

// Targets returns the target indices that rules name for documents of an index of the snapshot. s may be nil.
func (s *Set) Targets(index string) (names []string) {
	if e := s.Documents(index); e != nil {
		for _, to := range e.targets {
			if to != nil && !slices.Contains(names, string(to)) {
				names = append(names, string(to))
			}
		}
	}
	return names
}

// Merges reports whether a rule sends documents of any index to another target index. s may be nil.
func (s *Set) Merges() bool {
	return s != nil && slices.ContainsFunc(s.documents, func(r documentRule) bool { return r.index != "" })
}

// Edit changes the index and the source of a document; keep is false if a rule leaves it out. A changed source
// is borrowed until the next Edit; an unchanged one stays the same slice.
// Edit returns doc.ErrTooLong if the source becomes longer than most bytes (0: no limit), and another error if it is not JSON;
// the document is then unchanged.
func (e *Editor) Edit(d *doc.Document, most int64) (keep bool, err error) {
	e.most = int(min(most, math.MaxInt))
	source, index := d.Source, d.Index
	for i := range e.rules {
		r := &e.rules[i]
		if r.where != nil {
			ok, err := r.where.holds(&e.find, source)
			if err != nil {
				return false, err
			}
			if !ok {
				continue
			}
		}
		if r.leaveOut {
			return false, nil
		}
		if source, err = e.change(r, source); err != nil {
			return false, err
		}
		if e.targets[i] != nil {
			index = e.targets[i]
		}
	}
	d.Source, d.Index = source, index
	return true, nil
}

// change applies one rule to a source: copies first, so that they use the original fields.
func (e *Editor) change(r *documentRule, source []byte) ([]byte, error) {
	var err error
	for i := range r.copy {
		if source, err = e.copyField(&r.copy[i], source); err != nil {
			return nil, err
		}
	}
	for _, op := range r.rename {
		if source, err = e.renameField(op, source); err != nil {
			return nil, err
		}
	}
	for _, path := range r.drop {
		if source, err = e.dropField(path, source); err != nil {
			return nil, err
		}
	}
	return source, nil
}

// keepBuffer is the size of the largest buffer that Forget keeps, in bytes.
const keepBuffer = 16 << 20

// Forget releases the large buffers of the last document.
func (e *Editor) Forget() {
	for i := range e.bufs {
		if cap(e.bufs[i]) > keepBuffer {
			e.bufs[i] = nil
		}
	}
	if cap(e.find.hits) > keepHits {
		e.find.hits = nil
	}
}

// buffer returns the buffer that does not contain the source, with a capacity of size bytes.
func (e *Editor) buffer(size int) []byte {
	e.used = 1 - e.used
	return slices.Grow(e.bufs[e.used][:0], size)
}

func (e *Editor) keep(b []byte) []byte {
	e.bufs[e.used] = b
	return b
}

// dropField removes members, with the superfluous comma.
func (e *Editor) dropField(path string, source []byte) ([]byte, error) {
	if err := e.find.find(source, path); err != nil || len(e.find.hits) == 0 {
		return source, err
	}
	out, from := e.buffer(len(source)), 0
	for _, h := range e.find.hits {
		out = append(out, source[from:h.seg]...)
		if from = h.segEnd; source[from] == ',' {
			from++
		} else if out[len(out)-1] == ',' { // the last member: remove the comma before it
			out = out[:len(out)-1]
		}
	}
	return e.keep(append(out, source[from:]...)), nil
}

// renameField changes the key of members.
func (e *Editor) renameField(op renameOp, source []byte) ([]byte, error) {
	if err := e.find.find(source, op.from); err != nil || len(e.find.hits) == 0 {
		return source, err
	}
	size := len(source)
	for _, h := range e.find.hits {
		size += len(op.to) - len(op.from) + h.rest + 2 - (h.col - h.key)
	}
	if e.most > 0 && size > e.most {
		return nil, doc.ErrTooLong
	}
	out, from := e.buffer(size), 0
	for _, h := range e.find.hits {
		out = append(out, source[from:h.key]...)
		// The key may match several components of the path.
		out = appendQuoted(out, op.to[len(op.from)-h.rest:])
		from = h.col
	}
	return e.keep(append(out, source[from:]...)), nil
}

// copyField adds a member at the end of the document, unless it has a member of that name: the
// value, or a list of all values if there are several.
func (e *Editor) copyField(op *copyOp, source []byte) ([]byte, error) {
	if err := e.find.find(source, op.to); err != nil || len(e.find.hits) > 0 {
		return source, err
	}
	if err := e.find.find(source, op.from); err != nil || len(e.find.hits) == 0 {
		return source, err
	}
	end := len(source) - 1
	for source[end] != '}' { // only white space follows: find has parsed the source
		end--
	}
	hits := e.find.hits
	size := len(source) + len(op.member) + 3 + len(hits)
	for _, h := range hits {
		size += h.end - h.val
	}
	if e.most > 0 && size > e.most {
		return nil, doc.ErrTooLong
	}
	out := append(e.buffer(size), source[:end]...)
	out = append(append(out, ','), op.member...)
	if len(hits) > 1 {
		out = append(out, '[')
	}
	for i, h := range hits {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, source[h.val:h.end]...)
	}
	if len(hits) > 1 {
		out = append(out, ']')
	}
	return e.keep(append(out, source[end:]...)), nil
}

func appendQuoted(dst []byte, s string) []byte { return doc.AppendString(dst, []byte(s)) }
