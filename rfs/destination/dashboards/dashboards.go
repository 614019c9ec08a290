// Package dashboards imports saved objects into OpenSearch Dashboards through its API, which migrates and validates them.
package dashboards

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
)

// API sends requests to OpenSearch Dashboards in the name of one user and one tenant. As with rest.API, an error means that no response
// arrived. *target.Client implements it.
type API interface {
	rest.API
	// Post is Do of a POST request whose body has a content type of its own.
	Post(ctx context.Context, path, contentType string, body []byte) (status int, answer []byte, err error)
	// Refused returns the remedy for a credential that is rejected (status 401).
	Refused() string
}

// Importer imports files of saved objects. Objects that exist stay as they are.
type Importer struct {
	// Connect returns a connection whose requests have the header osd-xsrf, and the name of a tenant in the header securitytenant; "": no
	// such header.
	Connect func(ctx context.Context, tenant string) (API, error)
	// DryRun asks only which objects exist, and imports none.
	DryRun bool
	// Pause blocks between two tries of a request without an answer; nil: for the time.
	Pause func(ctx context.Context, d time.Duration) error
}

// File is a file of saved objects in NDJSON.
type File struct {
	Path   string
	Tenant string // tenant, or space of Kibana, that the objects are from; "": none
}

// Result lists the outcome of each object of a file. In a dry run it lists the expected outcome.
type Result struct {
	Tenant   string    `json:"tenant,omitempty"` // where they were imported; "": OpenSearch Dashboards has no tenants
	Skipped  string    `json:"skipped,omitempty"`
	Imported []Object  `json:"imported"`
	Existing []Object  `json:"existing"` // which stay as they are
	Refused  []Refusal `json:"refused"`
}

// Complete reports whether OpenSearch Dashboards has every object of the file.
func (r Result) Complete() bool { return r.Skipped == "" && len(r.Refused) == 0 }

// Object identifies a saved object.
type Object struct {
	Type  string `json:"type"`
	ID    string `json:"id"`
	Title string `json:"title,omitempty"`
}

// String returns type, id and title.
func (o Object) String() string {
	if o.Title == "" {
		return o.Type + " " + o.ID
	}
	return fmt.Sprintf("%s %s (%s)", o.Type, o.ID, o.Title)
}

func (o Object) key() string { return o.Type + ":" + o.ID }

// Refusal is an object that was not imported.
type Refusal struct {
	Object
	Reason string `json:"reason"`
}

// Bounds of a request. OpenSearch Dashboards takes 10,000 objects and 25 MiB by default, but proxies often less.
const (
	maxObjects = 1000
	maxBytes   = 1 << 20   // except for a single object
	maxLine    = 128 << 20 // bytes of an object
)

// Import imports the objects of a file, in requests of limited size, and blocks until all are answered. A Result with Skipped means that
// nothing was sent, because the user has no such tenant. It can be repeated: objects that were imported before an error exist. Errors:
// fault.ErrConfig for an address, a certificate or a credential, fault.ErrUnavailable without an answer after several tries,
// fault.ErrRejected, fault.ErrCorrupt. With an error the Result lists the outcome so far.
func (i *Importer) Import(ctx context.Context, f File) (Result, error) {
	x := importing{Importer: i, known: map[string]bool{}, Result: Result{Imported: []Object{}, Existing: []Object{}, Refused: []Refusal{}}}
	err := x.open(ctx, f.Tenant)
	if err == nil && x.Skipped == "" {
		err = x.file(ctx, f.Path)
	}
	return x.Result, err
}

// importing is the import of one file.
type importing struct {
	*Importer
	Result
	api   API
	known map[string]bool // index patterns and searches that exist, or would be imported; in a dry run
}

// object is a line of a file.
type object struct {
	Object
	needs []Object // index patterns and searches that it refers to
	line  []byte   // with its line break
}

// referred are the types whose absence OpenSearch Dashboards notices in references, in an order in which each refers only to earlier ones.
var referred = []string{"index-pattern", "search"}

// file sends all objects of a file, each after the objects that it refers to.
func (x *importing) file(ctx context.Context, path string) error {
	var batch []object
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		send := x.send
		if x.DryRun {
			send = x.expect
		}
		err := send(ctx, batch)
		batch, size = nil, 0
		return err
	}
	for wave := range len(referred) + 1 {
		err := lines(path, func(line []byte) error {
			o, err := parse(line)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			at := slices.Index(referred, o.Type)
			if at < 0 {
				at = len(referred)
			}
			if at != wave {
				return nil
			}
			if len(batch) == maxObjects || size+len(o.line) > maxBytes {
				if err := flush(); err != nil {
					return err
				}
			}
			batch, size = append(batch, o), size+len(o.line)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return flush()
}

// lines calls each with every line of a file. The line is valid until each returns.
func lines(path string, each func(line []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		if err := each(s.Bytes()); err != nil {
			return err
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// parse returns the object of a line.
func parse(line []byte) (object, error) {
	var in struct {
		Type, ID   string
		Attributes struct {
			Title json.RawMessage
		}
		References []Object
	}
	if json.Unmarshal(line, &in) != nil || in.Type == "" {
		return object{}, fmt.Errorf("a line holds no saved object: %.100q: %w", line, fault.ErrCorrupt)
	}
	o := object{Object: Object{Type: in.Type, ID: in.ID}, line: append(slices.Clone(line), '\n')}
	if json.Unmarshal(in.Attributes.Title, &o.Title) != nil {
		o.Title = ""
	}
	for _, r := range in.References {
		if slices.Contains(referred, r.Type) {
			o.needs = append(o.needs, Object{Type: r.Type, ID: r.ID})
		}
	}
	return o, nil
}

func (x *importing) refuse(o Object, reason string) {
	x.Refused = append(x.Refused, Refusal{o, reason})
}

// missing returns the reason for refusing an object that refers to objects that do not exist.
func missing(of []Object) string {
	var names []string
	for _, o := range of {
		names = append(names, o.Type+" "+o.ID)
	}
	const most = 10
	return "refers to objects that do not exist: " + fault.Names(names, most)
}

// plain returns the letters and digits of the name of a tenant, which are all that the name of its index keeps.
func plain(name string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return -1
	}, strings.ToLower(name))
}
