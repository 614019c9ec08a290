package stories

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/rfsd/rfsd/testing/fakecluster"
)

// meanwhile is an import during which an application writes a document.
func meanwhile(name string, k fakecluster.Key) step {
	return func(w *world) {
		w.t.Helper()
		memory := w.memory()
		const source = `{"by":"an application, meanwhile"}`
		wrote := func() bool {
			if !slices.Contains(w.cluster.Indices(), k.Index) || len(memory.Latest(k.Index, 1)) == 0 {
				return false
			}
			w.cluster.Put(k, source)
			return true
		}
		w.loss.Store(&wrote)
		m := &w.model
		*m = m.loaded(name)
		w.command(kill{}, name, codes(0), "rfsd", "import", "--from", filepath.Join(w.dir, "export"), "--create-indices")
		m.put(k, source, nil)
		for _, index := range names { // the documents of a file are not counted by index
			m.foreign(index, nil)
		}
	}
}

// forgetful is a target that loses the latest documents of an index after the end of a migration, whose command is then repeated. It
// sends them again.
func forgetful(name, index string) step {
	return func(w *world) {
		w.t.Helper()
		memory := w.memory()
		lost := memory.Latest(index, 3)
		w.tell("%d documents of %s are lost", len(lost), index)
		memory.Lose(lost...)
		w.command(kill{}, name, failedCodes(w.model.session(name)), "rfsd", "migrate", w.source()...)
	}
}

// write is an application that writes a document of its own, or over one of the snapshot.
func write(k fakecluster.Key) step {
	return func(w *world) {
		if !w.model.exists(w.cluster, k.Index) {
			return
		}
		if _, real := w.cluster.(*node); real && w.model.indices[k.Index].strict {
			return // a node refuses it
		}
		source := fmt.Sprintf(`{"by":"an application","step":%d}`, len(w.tale))
		w.tell("an application writes %s/%s", k.Index, k.ID)
		w.cluster.Put(k, source)
		w.model.put(k, source, nil)
	}
}

// remove is an application that deletes a document.
func remove(k fakecluster.Key) step {
	return func(w *world) {
		if _, there := w.model.docs[k]; !there || w.model.open {
			return
		}
		w.tell("an application deletes %s/%s", k.Index, k.ID)
		w.cluster.Delete(k)
		w.model.remove(k)
	}
}

// operator sends a request that must be answered with 200.
func (w *world) operator(method, path, body string) {
	w.t.Helper()
	w.tell("an operator: %s %s %s", method, path, body)
	if code := w.cluster.Do(method, path, body); code != http.StatusOK {
		w.t.Fatalf("%s %s: %d", method, path, code)
	}
}

// fields returns the fields of an index of the snapshot, as JSON.
func (w *world) fields(name string) string {
	w.t.Helper()
	raw, err := os.ReadFile(w.repository + ".metadata.json")
	if err != nil {
		w.t.Fatal(err)
	}
	var all []struct {
		Indices map[string]struct {
			Mappings struct{ Properties json.RawMessage }
		}
	}
	if err := json.Unmarshal(raw, &all); err != nil || len(all) == 0 {
		w.t.Fatalf("%s: %v", w.repository, err)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, all[0].Indices[name].Mappings.Properties); err != nil {
		w.t.Fatal(err)
	}
	return line.String()
}

// strict creates an index that takes no document until loosen.
func strict(name string) step {
	return func(w *world) {
		if w.model.indices[name] != nil || w.model.open {
			return
		}
		w.operator(http.MethodPut, "/"+name, `{"mappings":{"dynamic":"strict"}}`)
		w.model.indices[name] = &index{strict: true}
	}
}

func loosen(name string) step {
	return func(w *world) {
		if x := w.model.indices[name]; x == nil || !x.strict {
			return
		}
		w.operator(http.MethodPut, "/"+name+"/_mapping", `{"dynamic":true,"properties":`+w.fields(name)+`}`)
		w.model.indices[name].strict = false
	}
}

// dropping creates an index whose final pipeline drops documents that have a field.
func dropping(name, field string) step {
	return func(w *world) {
		if w.model.indices[name] != nil || w.model.open {
			return
		}
		w.operator(http.MethodPut, "/_ingest/pipeline/drops", `{"processors":[{"drop":{"if":"ctx.containsKey('`+field+`')"}}]}`)
		w.operator(http.MethodPut, "/"+name, `{"settings":{"index.final_pipeline":"drops"},"mappings":{"properties":`+w.fields(name)+`}}`)
		w.model.indices[name] = &index{drops: field, piped: *version != ""}
	}
}

// repaired takes the pipeline away.
func repaired(name string) step {
	return func(w *world) {
		if x := w.model.indices[name]; x == nil || x.drops == "" {
			return
		}
		w.operator(http.MethodPut, "/"+name+"/_settings", `{"index.final_pipeline":"_none"}`)
		w.model.indices[name].drops = ""
	}
}
