package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// TrialKey is the setting that makes a session a trial run: the number of documents of each shard.
const TrialKey = "trial"

// checkTrial rejects a prefix with which indices of the snapshot start, and rules that move documents to indices that the trial run does
// not create.
func (p *Plan) checkTrial(snap *snapshot.Snapshot, req Request) error {
	for _, x := range snap.Indices {
		if strings.HasPrefix(x.Name, req.Trial.Prefix) {
			return fmt.Errorf("the snapshot has an index %s, whose name has the prefix of the trial run: choose another --trial-prefix than %s: %w", x.Name, req.Trial.Prefix, fault.ErrConfig)
		}
	}
	var targets []string
	for _, x := range p.Indices {
		targets = append(targets, x.Entry.Naming.Targets()...)
	}
	for _, x := range p.Indices {
		for _, to := range req.Rules.Targets(x.Name) {
			if !slices.Contains(targets, req.Trial.Prefix+to) {
				return fmt.Errorf("rules move documents of %s to %s, which a trial run does not create: leave that index out (--index-exclude) or that rule out of the file: %w", x.Name, to, fault.ErrConfig)
			}
		}
	}
	return nil
}

// Foreign returns an error if a target of a trial run's entry exists and was not created by its session.
func (e Entry) Foreign(absent []string) error {
	if e.Trial == nil {
		return nil
	}
	for _, name := range e.Naming.Targets() {
		if !slices.Contains(absent, name) && !slices.Contains(e.Ours, name) {
			return fmt.Errorf("the target has an index or alias %s, which is not of this trial run and is not touched: choose another --trial-prefix than %s: %w", name, e.Trial.Prefix, fault.ErrConfig)
		}
	}
	return nil
}

// Trial makes a session a trial run: it sends a sample of each shard to indices of its own. The DESIGN.md of phase describes it.
type Trial struct {
	Documents int64  `json:"documents"` // maximum number for each shard
	Prefix    string `json:"prefix"`    // prefix of the names of all target indices
}

// describe returns a description of the trial run for messages.
func (t *Trial) describe() string {
	if t == nil {
		return "none"
	}
	return fmt.Sprintf("%d documents, prefix %s", t.Documents, t.Prefix)
}
