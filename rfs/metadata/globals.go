package metadata

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/rfsd/rfsd/rfs/target"
)

// Kind is a kind of object that belongs to a cluster and to no index.
type Kind string

// Kinds that can be migrated, in the order in which they are created: whatever another
// names comes first.
const (
	LegacyTemplate    Kind = "template"
	ComponentTemplate Kind = "component-template"
	IndexTemplate     Kind = "index-template"
	Pipeline          Kind = "pipeline"
	Script            Kind = "script"
	Policy            Kind = "ilm-policy" // becomes an ISM policy
)

// Kinds that are listed only.
const (
	DataStream Kind = "data-stream"
	Setting    Kind = "cluster-setting"
	Other      Kind = "other"
)

// Globals is what a snapshot says about the cluster: raw JSON by kind and name.
type Globals struct {
	Objects map[Kind]map[string]json.RawMessage
	// DataStreams are the backing indices of each data stream, oldest first.
	DataStreams map[string][]string
	// Others are parts of the metadata that no target can take, with the reason.
	Others []LeftOut
}

// Selection says which objects are wanted.
type Selection struct {
	// Templates, ComponentTemplates and IndexTemplates choose by name; nil takes all.
	Templates, ComponentTemplates, IndexTemplates func(name string) bool
	Pipelines, Scripts, Policies                  bool
	// Managed takes also what the source made for itself (.monitoring, logs, ilm-history, …).
	Managed bool
}

// Global is one object to create.
type Global struct {
	Kind    Kind
	Name    string
	Body    json.RawMessage // of the request that creates it
	Changes []Change        // Change.Index is "<kind> <name>"
}

// LeftOut is an object that is not migrated.
type LeftOut struct {
	Kind   Kind
	Name   string
	Reason string
}

// GlobalPlan is what is to be created, in that order, and everything that is not.
type GlobalPlan struct {
	Objects []Global
	Left    []LeftOut
}

// GlobalResult says what EnsureGlobals did. Names are "<kind> <name>".
type GlobalResult struct {
	Created []string  // in the order of the plan
	Existed []string  // left as they are
	Left    []LeftOut // of the plan, and what the target refused
	Changes []Change  // of created objects only
}

// Requester sends one request and gives status and answer, whatever the status is; an error
// means that there was no answer (fault.ErrUnavailable). *target.Client is one.
type Requester interface {
	Do(ctx context.Context, method, path string, query url.Values, body []byte) (status int, answer []byte, err error)
}

// ParseGlobals reads the global metadata of a snapshot (snapshot.Snapshot.Global): the
// objects below "meta-data" by section. Errors: fault.ErrCorrupt.
func ParseGlobals(sections map[string]json.RawMessage) (Globals, error) {
	return Globals{}, nil
}

// ConvertGlobals plans the objects that are wanted for a target of that version. It asks nobody.
func ConvertGlobals(v target.Version, g Globals, sel Selection) (GlobalPlan, error) {
	return GlobalPlan{}, nil
}

// EnsureGlobals creates what the target does not have and never touches what exists. It may
// be repeated, and run by several processes at once.
func EnsureGlobals(ctx context.Context, c Requester, plan GlobalPlan) (GlobalResult, error) {
	return GlobalResult{}, nil
}
