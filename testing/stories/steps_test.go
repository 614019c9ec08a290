package stories

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/testing/fakecluster"
)

// step is one command, or one act of an application or operator. It changes the model and checks what came of it.
type step func(w *world)

// codes are exit codes that a command may give.
func codes(all ...int) []int { return all }

// failedCodes are the exit codes of a session without other trouble.
func failedCodes(s *session) []int {
	switch {
	case len(s.failed) > 0:
		return codes(6)
	case s.collided:
		return codes(0, 6)
	}
	return codes(0)
}

// load is a command that fills the target, a migration or an import, and may be killed.
func load(name string, k kill, more ...string) step {
	return func(w *world) {
		w.t.Helper()
		m, s := &w.model, w.model.session(name)
		verb, args := s.verb, w.load(s, more...)
		if m.orphaned(s) {
			return
		}
		if _, real := w.cluster.(*node); real && verb == "import" && slices.ContainsFunc(names, func(name string) bool { return m.indices[name] == nil }) {
			return // a node maps a field by its first value, and refuses later ones
		}
		s.tried = true
		switch {
		case s.undone, m.asks(s) && !m.open:
			s.asked = true
			w.command(kill{}, name, codes(1), "rfsd", verb, args...)
		case s.done:
			want := failedCodes(s)
			if m.gone(s) {
				want = codes(7)
			}
			w.command(k, name, want, "rfsd", verb, args...)
		default:
			asks := m.asks(s) || m.open && s.existing == ""
			w.begins(s)
			after := m.loaded(name)
			want := failedCodes(after.session(name))
			if asks { // a process that was killed may have recorded that the indices held nothing, or not
				want = append(want, 1)
			}
			switch w.command(k, name, want, "rfsd", verb, args...) {
			case 1:
				s.asked = true
			case -1:
				s.loading = s.loading || !asks
			default:
				*m = after
			}
		}
	}
}

// stateless reports whether a session was killed before it recorded anything.
func (w *world) stateless(s *session) bool {
	_, err := os.Stat(filepath.Join(w.dir, s.name+".db"))
	return w.model.open && err != nil
}

// untouched reports whether a process that was killed has changed nothing on the target, so that it may have recorded nothing either.
func (w *world) untouched() bool {
	m := &w.model
	return m.open && slices.Equal(w.cluster.Indices(), slices.Sorted(maps.Keys(m.indices))) && !slices.ContainsFunc(names, func(name string) bool {
		return w.cluster.Operations(name) != m.operations[name]
	})
}

// begins notes that a process of a session changes the target from now on.
func (w *world) begins(s *session) {
	m := &w.model
	if !m.open {
		m.operations = map[string]int64{}
		for _, name := range names {
			m.operations[name] = w.cluster.Operations(name)
		}
	}
	s.begun, m.open, m.running = true, true, s.name
}

// load returns the options of a command that fills the target. What existing documents become and which indices are filled are
// options that a session keeps.
func (w *world) load(s *session, more ...string) []string {
	for option, kept := range map[string]*string{"--existing-documents": &s.existing, "--index-allowlist": &s.only} {
		if i := slices.Index(more, option); i >= 0 {
			*kept = more[i+1]
		} else if *kept != "" {
			more = append(slices.Clone(more), option, *kept)
		}
	}
	if s.verb == "import" {
		return append([]string{"--from", filepath.Join(w.dir, "export"), "--create-indices", "--window-lease", "2s"}, more...)
	}
	return append(w.source(), append(more, "--initial-lease-duration", "2s")...)
}

func migrate(name string, more ...string) step { return load(name, kill{}, more...) }

func importing(name string, more ...string) step {
	return func(w *world) {
		w.t.Helper()
		w.model.session(name).verb = "import"
		load(name, kill{}, more...)(w)
	}
}

// otherOptions runs a migration with a selection that it was not begun with, which is refused before it does anything.
func otherOptions(name string) step {
	return func(w *world) {
		w.t.Helper()
		s := w.model.session(name)
		if !s.begun || s.verb != "migrate" || w.model.open {
			return
		}
		other := *s
		other.only = "weblogs"
		if s.only == other.only {
			other.only = "orders"
		}
		w.command(kill{}, name, codes(1), "rfsd", "migrate", w.load(&other)...)
	}
}

// forget removes what is kept about a session, which frees its name. The files of failed documents stay: they are the operator's.
func forget(name string) step {
	return func(w *world) {
		w.t.Helper()
		s := w.model.session(name)
		if w.model.open || !s.done && !s.undone {
			return
		}
		w.command(kill{}, name, codes(0), "rfsctl", "cleanup", "--force")
		delete(w.model.sessions, name)
	}
}

// export writes the snapshot to files.
func export(w *world) {
	w.t.Helper()
	r := w.run(kill{}, "rfsd", append(append([]string{"migrate"}, w.source()...), "--export-dir", filepath.Join(w.dir, "export"))...)
	w.tell("rfsd migrate --export-dir: exit %d", r.code)
	if w.model.exported = true; r.code != 0 {
		w.t.Errorf("export: exit %d:\n%s", r.code, r.output)
	}
}

// verify compares the target with the snapshot.
func verify(name string, more ...string) step {
	return func(w *world) {
		w.t.Helper()
		s := w.model.session(name)
		want, from := w.model.compared(s, slices.Contains(more, "--strict")), w.source()
		if w.model.open || s.undone || slices.ContainsFunc(s.names(), func(name string) bool { return w.model.indices[name] == nil }) {
			want = codes(0, 6, 7, 8)
		}
		if s.only != "" {
			from = append(from, "--index-allowlist", s.only)
		}
		if s.verb == "import" {
			from = []string{"--from", filepath.Join(w.dir, "export")}
		}
		if w.stateless(s) {
			want = codes(1)
		}
		w.command(kill{}, name, want, "rfsd", "verify", append(from, more...)...)
	}
}

// redrive sends failed documents again, by processes that are killed, if any, and one more.
func redrive(name string, kills ...kill) step {
	return func(w *world) {
		w.t.Helper()
		m, s := &w.model, w.model.session(name)
		if !s.done || s.undone {
			return
		}
		m.redrive(s)
		for _, k := range append(kills, kill{}) {
			if w.command(k, name, failedCodes(s), "rfsd", "redrive", "--index-allowlist", "*") != -1 {
				return
			}
		}
	}
}

// undo removes what a session created, and is perhaps killed before it is run to its end.
func undo(name string, k kill) step {
	return func(w *world) {
		w.t.Helper()
		m, s := &w.model, w.model.session(name)
		if !s.tried {
			w.command(kill{}, name, codes(1), "rfsctl", "undo", "--yes")
			return
		}
		m.running = name
		want := codes(0, 7)
		if !m.open {
			want = codes(0)
			if m.undo(s) {
				want = codes(7)
			}
		} else if w.stateless(s) {
			w.command(kill{}, name, codes(1), "rfsctl", "undo", "--yes")
			return
		} else if w.untouched() {
			want = codes(0, 1, 7)
		}
		code := 4
		for began := time.Now(); code == 4 || code == -1; { // a killed process holds its leases for two seconds
			if code = w.command(k, name, append(want, 4), "rfsctl", "undo", "--yes"); time.Since(began) > 30*time.Second {
				w.t.Fatalf("undo of session %s: exit %d for 30 s", name, code)
			}
			k = kill{}
		}
		if !m.open || code == 1 {
			return
		}
		for _, wrong := range m.removed(s, w.cluster, code == 0) {
			w.t.Errorf("after the undo of a killed process: %s", wrong)
		}
	}
}

// status shows a session.
func status(name string) step {
	return func(w *world) {
		w.t.Helper()
		s := w.model.session(name)
		want := failedCodes(s)
		switch {
		case s.undone:
			want = codes(0, 4, 6)
		case !s.tried:
			want = codes(1)
		case !s.done:
			want = codes(0, 1, 4, 6) // it may have been killed at its end, too
		case w.model.gone(s):
			want = append(failedCodes(s), 7)
		}
		w.command(kill{}, name, want, "rfsctl", "status", "--exit-status")
	}
}

// list runs commands that change nothing.
func list(name string) step {
	return func(w *world) {
		w.t.Helper()
		s := w.model.session(name)
		if !s.begun {
			return
		}
		seen, failed := codes(0), failedCodes(s)
		if w.model.open || !s.done { // killed before it had a state, or with some documents failed
			seen, failed = codes(0, 1), codes(0, 1, 6)
		}
		w.command(kill{}, name, seen, "rfsctl", "created")
		w.command(kill{}, name, failed, "rfsctl", "failures")
		w.command(kill{}, name, codes(0, 1, 4), "rfsctl", "undo") // without --yes
	}
}

// listed expects failed documents of a class, and of no other.
func listed(name, class string) step {
	return func(w *world) {
		w.t.Helper()
		r := w.run(kill{}, "rfsctl", append([]string{"failures"}, w.at(name)...)...)
		w.tell("rfsctl failures of session %s: exit %d", name, r.code)
		if r.code != 6 || !strings.Contains(r.output, class) || class != "id_collision" && strings.Contains(r.output, "id_collision") {
			w.t.Errorf("rfsctl failures: exit %d, want 6 and %s:\n%s", r.code, class, r.output)
		}
	}
}

// unsendable puts before each failed document of a session another line of it, as an earlier run with other limits leaves it: without
// a source, so that it cannot be sent.
func unsendable(name string) step {
	return func(w *world) {
		w.t.Helper()
		files, err := filepath.Glob(filepath.Join(w.dir, "rfsd-failed", name, "*"))
		if err != nil || len(files) == 0 {
			w.t.Fatalf("no failed documents: %v", err)
		}
		for _, file := range files {
			was, err := os.ReadFile(file)
			if err != nil {
				w.t.Fatal(err)
			}
			var out bytes.Buffer
			for line := range bytes.Lines(was) {
				var failed map[string]any
				if err := json.Unmarshal(line, &failed); err != nil {
					w.t.Fatalf("%s: %v", file, err)
				}
				delete(failed, "source")
				failed["status"], failed["reason"], failed["detail"] = 0, "too_large", "longer than the limit of the time"
				b, err := json.Marshal(failed)
				if err != nil {
					w.t.Fatal(err)
				}
				out.Write(append(b, '\n'))
				out.Write(line)
			}
			if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
				w.t.Fatal(err)
			}
			w.tell("%d bytes of failed documents are listed before, without source, in %s", out.Len()-len(was), filepath.Base(file))
		}
	}
}

// lossy is a migration while whose documents are counted the target loses some: it had acknowledged them and did not keep them. The
// migration sends them again.
func lossy(name string, lost ...string) step {
	return func(w *world) {
		w.t.Helper()
		memory := w.memory()
		var all []fakecluster.Key
		for k := range w.model.snapshot {
			if slices.Contains(lost, k.Index) && len(all) < 20 {
				all = append(all, k)
			}
		}
		lose := func() bool {
			for _, index := range lost {
				all = append(all, memory.Latest(index, 5)...)
			}
			memory.Lose(all...)
			return true
		}
		w.tell("more than %d documents are going to be lost", len(all))
		w.loss.Store(&lose)
		m := &w.model
		*m = m.loaded(name)
		w.command(kill{}, name, codes(0), "rfsd", "migrate", w.load(m.session(name))...)
		m.session(name).tried = true
	}
}

// chooses decides what becomes of existing documents.
func chooses(name, existing string) step {
	return func(w *world) { w.model.session(name).existing = existing }
}

// lossyImport is an import while whose documents are counted the target loses the latest of an index. They stay missing until another
// session sends them.
func lossyImport(name, index string) step {
	return func(w *world) {
		w.t.Helper()
		memory := w.memory()
		var lost []fakecluster.Key
		lose := func() bool {
			if !slices.Contains(w.cluster.Indices(), index) {
				return false
			}
			lost = memory.Latest(index, 3)
			memory.Lose(lost...)
			return len(lost) > 0
		}
		w.loss.Store(&lose)
		m := &w.model
		*m = m.loaded(name)
		args := []string{"--from", filepath.Join(w.dir, "export"), "--create-indices"}
		w.command(kill{}, name, codes(7), "rfsd", "import", args...)
		w.command(kill{}, name, codes(7), "rfsd", "import", args...)
		w.command(kill{}, name, codes(7), "rfsctl", "status", "--exit-status")
		for _, k := range lost {
			delete(m.docs, k)
		}
		w.tell("%d documents of %s were lost", len(lost), index)
	}
}
