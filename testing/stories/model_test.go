package stories

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/rfsd/rfsd/testing/fakecluster"
)

// model is what must be true of the target and of each session.
type model struct {
	snapshot docs
	docs     docs                    // on the target
	written  map[fakecluster.Key]int // when each was written the last time
	now      int                     // increased by each step
	indices  map[string]*index       // on the target; another index of the same name is another pointer
	sessions map[string]*session
	open     bool   // a process was killed in the middle: the target has something between before and after
	running  string // the session of that process

	exported   bool             // the snapshot is in files, too
	operations map[string]int64 // of the indices, before that process or its predecessors began
}

// index is an index of the target.
type index struct {
	strict bool   // takes no documents
	drops  string // the final pipeline drops documents that have this field
	piped  bool   // it had a final pipeline, and a node writes again what passes through one
	bare   bool   // an import created it, without the fields of the snapshot
}

// session is a migration or an import.
type session struct {
	name     string
	verb     string // of rfsd: migrate or import
	only     string // --index-allowlist
	tried    bool   // a command of it has run
	begun    bool   // a command of it has changed the target
	loading  bool   // it has sent documents
	asked    bool   // it was refused because nothing says what becomes of existing documents
	decided  bool   // its indices are there: it knows that they held no documents
	done     bool
	undone   bool
	collided bool              // it replaced documents of others in indices that it knew as empty, which count as documents of its own
	existing string            // --existing-documents
	targets  map[string]*index // indices that it filled
	created  map[string]*index // indices that it created and has not removed
	ended    map[string]int    // when an index of it was complete
	touched  map[string]bool   // indices that others wrote to since it created them
	early    map[string]bool   // indices that others wrote to before it was complete, or before it was continued
	failed   docs              // documents that were refused and not delivered since
}

func newModel(all docs) model {
	return model{snapshot: all, docs: docs{}, written: map[fakecluster.Key]int{}, indices: map[string]*index{}, sessions: map[string]*session{}}
}

func (m *model) session(name string) *session {
	s := m.sessions[name]
	if s == nil {
		s = &session{name: name, verb: "migrate", targets: map[string]*index{}, created: map[string]*index{}, ended: map[string]int{}, touched: map[string]bool{}, early: map[string]bool{}, failed: docs{}}
		m.sessions[name] = s
	}
	return s
}

// clone returns a copy that changes alone.
func (m *model) clone() model {
	c := *m
	c.docs, c.written, c.indices, c.sessions = maps.Clone(m.docs), maps.Clone(m.written), maps.Clone(m.indices), map[string]*session{}
	for name, s := range m.sessions {
		copied := *s
		copied.targets, copied.created, copied.ended = maps.Clone(s.targets), maps.Clone(s.created), maps.Clone(s.ended)
		copied.touched, copied.early, copied.failed = maps.Clone(s.touched), maps.Clone(s.early), maps.Clone(s.failed)
		c.sessions[name] = &copied
	}
	return c
}

// names are the indices of the snapshot.
var names = []string{"catalogue", "orders", "weblogs"}

// names returns the indices that a session fills.
func (s *session) names() []string {
	if s.only != "" {
		return []string{s.only}
	}
	return names
}

// of returns the documents of an index.
func of(all docs, name string) docs {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(k fakecluster.Key, _ string) bool { return k.Index != name })
	return out
}

// takes reports whether an index takes a document.
func (x *index) takes(source string) bool {
	if x.strict {
		return false
	}
	var fields map[string]json.RawMessage
	if x.drops == "" || json.Unmarshal([]byte(source), &fields) != nil {
		return true
	}
	_, has := fields[x.drops]
	return !has
}

// asks reports whether a session has to be told what becomes of existing documents.
func (m *model) asks(s *session) bool {
	return s.existing == "" && !s.loading && !s.decided && slices.ContainsFunc(s.names(), func(name string) bool {
		return m.indices[name] != nil && m.indices[name] != s.created[name] && len(of(m.docs, name)) > 0
	})
}

// create gives a session the indices that the target lacks.
func (m *model) create(s *session) {
	s.decided = s.decided || !m.asks(s)
	for _, name := range s.names() {
		if m.indices[name] == nil {
			m.indices[name] = &index{bare: s.verb == "import"}
			s.created[name] = m.indices[name]
		}
		s.targets[name] = m.indices[name]
	}
	s.begun = true
}

// loaded returns the model after a migration or an import of a session has run to its end.
func (m *model) loaded(name string) model {
	after := m.clone()
	s := after.session(name)
	after.create(s)
	for _, index := range s.names() {
		x := after.indices[index]
		for k, source := range of(after.snapshot, index) {
			if _, there := after.docs[k]; there && s.existing == "keep" {
				continue
			}
			if !x.takes(source) {
				s.failed[k] = source
				continue
			}
			if _, there := after.docs[k]; there && (x == s.created[index] || s.existing == "") {
				s.collided = true
			}
			after.put(k, source, s)
		}
		s.targets[index], s.ended[index] = x, after.now
	}
	s.loading, s.done, after.open = true, true, false
	return after
}

// put notes a document that a session wrote; nil: an application.
func (m *model) put(k fakecluster.Key, source string, by *session) {
	m.docs[k], m.written[k] = source, m.now
	m.foreign(k.Index, by)
}

func (m *model) remove(k fakecluster.Key) {
	delete(m.docs, k)
	m.foreign(k.Index, nil)
}

// foreign notes that an index was written to by others than its sessions.
func (m *model) foreign(name string, by *session) {
	for _, s := range m.sessions {
		if s == by || m.indices[name] == nil {
			continue
		}
		s.touched[name] = s.touched[name] || s.created[name] == m.indices[name]
		s.early[name] = s.early[name] || !s.done
	}
}

// redrive applies a redrive that runs to its end.
func (m *model) redrive(s *session) {
	maps.Copy(s.early, s.touched) // sequence numbers of before tell nothing any more
	for k, source := range s.failed {
		x := m.indices[k.Index]
		if x == nil || x != s.targets[k.Index] || !x.takes(source) {
			continue
		}
		if _, there := m.docs[k]; !there || s.existing != "keep" {
			m.put(k, source, s)
		}
		delete(s.failed, k)
	}
}

// undo applies an undo that runs to its end, and reports whether something was refused.
func (m *model) undo(s *session) (refused bool) {
	for name, x := range s.created {
		switch {
		case m.indices[name] == nil:
			delete(s.created, name)
		case m.indices[name] != x || s.touched[name]:
			refused = true
		default:
			delete(s.created, name)
			delete(m.indices, name)
			maps.DeleteFunc(m.docs, func(k fakecluster.Key, _ string) bool { return k.Index == name })
		}
	}
	s.undone = true
	return refused
}

// removed applies an undo of a session whose process was killed, and returns what it must not have done. It may leave what the session
// created, because nothing tells which documents of it are the session's.
func (m *model) removed(s *session, on target, all bool) (wrong []string) {
	after, got, indices := m.loaded(s.name), on.Documents(), on.Indices()
	for _, name := range names {
		x := m.indices[name]
		mine := x == nil || s.created[name] == x
		if !slices.Contains(indices, name) {
			if !mine || s.touched[name] {
				wrong = append(wrong, "index "+name+" is gone, but others created it or wrote to it")
			}
			delete(s.created, name)
			delete(m.indices, name)
			maps.DeleteFunc(m.docs, func(k fakecluster.Key, _ string) bool { return k.Index == name })
			continue
		}
		if mine {
			if all {
				wrong = append(wrong, "index "+name+" of the session is still there")
			}
			s.created[name], s.touched[name] = cmp.Or(x, &index{bare: s.verb == "import"}), true
			m.indices[name] = s.created[name]
		}
		for k, source := range of(m.docs, name) {
			if is, there := got[k]; !there || is != source && is != after.docs[k] {
				wrong = append(wrong, fmt.Sprintf("%s/%s is %q, want %q or %q", name, k.ID, is, source, after.docs[k]))
			}
		}
		for k, is := range of(got, name) {
			if was, there := m.docs[k]; !there && is != after.docs[k] {
				wrong = append(wrong, fmt.Sprintf("%s/%s is %q", name, k.ID, is))
			} else if was != is {
				m.docs[k], m.written[k] = is, m.now
			}
		}
		if on.Operations(name) != m.operations[name] {
			m.foreign(name, s)
		}
	}
	s.undone, s.failed, m.open = true, docs{}, false
	return wrong
}

// exists reports whether an index is there for an application, also one that a process created which was killed then.
func (m *model) exists(on target, name string) bool {
	if m.open && m.indices[name] == nil && slices.Contains(on.Indices(), name) {
		s := m.session(m.running)
		m.indices[name] = &index{bare: s.verb == "import"}
		s.created[name] = m.indices[name]
	}
	return m.indices[name] != nil
}

// gone reports whether an index that a session filled was removed or replaced.
func (m *model) gone(s *session) bool {
	return slices.ContainsFunc(s.names(), func(name string) bool { return s.targets[name] != m.indices[name] })
}

// orphaned reports whether an index is gone that a session chose in an earlier phase and has sent no documents to.
func (m *model) orphaned(s *session) bool {
	return !m.open && s.begun && !s.done && !s.undone && m.gone(s)
}

// compared returns the exit codes that a comparison by a session may give.
func (m *model) compared(s *session, strict bool) []int {
	var different, later, unsure bool
	for _, name := range s.names() {
		is, want := of(m.docs, name), of(m.snapshot, name)
		unsure = unsure || m.indices[name] != nil && m.indices[name].bare
		for k, source := range want {
			if got, there := is[k]; there && got == source {
				continue
			} else if _, failed := s.failed[k]; failed {
				continue
			} else if !there {
				different = true
				continue
			}
			m.judge(s, k, &different, &later, &unsure)
		}
		for k := range is {
			if _, ours := want[k]; !ours {
				m.judge(s, k, &different, &later, &unsure)
			}
		}
	}
	code := 0 // also where others have brought what failed, as the snapshot has it
	for k := range s.failed {
		if m.docs[k] != m.snapshot[k] {
			code = 6
		}
	}
	switch {
	case different || later && strict:
		return codes(8)
	case unsure:
		return codes(8, code)
	}
	return codes(code)
}

// judge decides by the time when a document was written whether a comparison can know that it was written after the end.
func (m *model) judge(s *session, k fakecluster.Key, different, later, unsure *bool) {
	x := m.indices[k.Index]
	switch {
	case !s.done || s.created[k.Index] != x || x != s.targets[k.Index]:
		*different = true // no sequence numbers are recorded
	case s.early[k.Index]:
		*unsure = true
	case m.written[k] > s.ended[k.Index]:
		*later = true
	default:
		*different = true
	}
}
