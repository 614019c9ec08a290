package config

import (
	"math"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// Nodes are the nodes that are asked, and who asks.
type Nodes struct {
	_     struct{} `group:"Connection to a node"`
	Nodes []string `flag:"node" help:"node to ask: HOST:PORT or a socket's path; may be repeated, also with commas"`
	TLS   TLS
}

// Verification holds the options of comparing a target with its snapshot.
type Verification struct {
	_           struct{} `group:"Verification"`
	Quick       bool     `flag:"quick" help:"compare numbers of documents only"`
	Sample      Share    `flag:"sample" default:"100%" want:"a part such as 1%" help:"part of all documents that is compared, such as 1%: always the same ids"`
	Changed     bool     `flag:"changed" help:"compare only the documents that the last round of rfsd follow sent or deleted (--session-name names the session that is followed)"`
	Strict      bool     `flag:"strict" help:"documents that were written to the target after the migration are differences, too (exit code 8)"`
	Differences int      `flag:"differences" default:"1000" min:"1" max:"100000" help:"maximum number of documents that are named for each target index; further ones are only counted"`
}

// Rounds select what rfsd follow does.
type Rounds struct {
	_      struct{} `group:"Rounds"`
	Once   bool     `flag:"once" help:"run one round and exit as rfsd migrate does"`
	Finish bool     `flag:"finish" help:"end the following: restore the settings of the target's indices that the rounds have changed; later rounds are refused"`
	Over   bool     `flag:"start-over" help:"if a snapshot that a round needs is gone from the repository: remove the target indices that the session created, unless other clients have written to them, and send the next snapshot whole"`
	Each   EachRound
}

// EachRound are the settings of all rounds.
type EachRound struct {
	_      struct{}      `group:"Rounds" section:"follow"`
	Every  time.Duration `flag:"every" default:"15m" min:"1s" max:"720h" help:"time between the starts of two rounds, unless a round takes longer"`
	Stop   Patterns      `flag:"stop-following" help:"stop following an index of the source after this round, for example because a shard is damaged: a name, a pattern such as logs-*, or regex:PATTERN; may be repeated"`
	Delete bool          `flag:"delete-indices" help:"delete target indices that the session created when their indices vanish from the source, unless other clients have written to them"`
}

// FollowCluster makes a node follow a cluster with its fleet.
type FollowCluster struct {
	_      struct{} `group:"Rounds" section:"follow"`
	Follow bool     `flag:"follow" help:"follow the source cluster: the fleet migrates a first snapshot, and then what changes in each later one, until a cut-over"`
}

// SourceBlocks permits or wishes write blocks.
type SourceBlocks struct {
	_     struct{} `group:"Cut-over" section:"follow"`
	Block bool     `flag:"block-source-writes" help:"block writes to indices of the source in a cut-over (rfsd follow permits it, rfsctl cutover orders it); without it, end all writes before a cut-over"`
}

// CuttingOver selects what rfsctl cutover does.
type CuttingOver struct {
	_         struct{}      `group:"Cut-over"`
	MaxOutage time.Duration `flag:"max-outage" default:"10m" min:"20s" max:"24h" help:"return from the cut-over when writes have been blocked for this long"`
	Group     Patterns      `flag:"indices" help:"cut over only the indices of the source that match; the others are followed further: a name, a pattern such as logs-*, or regex:PATTERN; may be repeated"`
	Accept    bool          `flag:"accept-failed" help:"cut over although documents failed in a round"`
	Abort     bool          `flag:"abort" help:"return from a cut-over that is in progress: the write blocks are removed, and following continues"`
	NoWait    bool          `flag:"no-wait" help:"order it, and do not wait for its end"`
}

// Dry selects a run that changes nothing.
type Dry struct {
	_   struct{} `group:"Confirmation"`
	Run bool     `flag:"dry-run" help:"report what would happen, and what prevents it; order and import nothing"`
}

// AtTheEnd holds the steps to run when every document is settled.
type AtTheEnd struct {
	_      struct{} `group:"Verification" section:"daemon"`
	Verify bool     `flag:"verify" help:"compare the target with the snapshot at the end, as rfsd verify does (exit code 8: different)"`
}

// check refuses a comparison at the end of what cannot be compared.
func (e AtTheEnd) check(t Transfer) error {
	switch {
	case !e.Verify:
		return nil
	case t.Target.Cluster.Host == "":
		return Usage("--verify compares documents in a cluster: give --target-host, or leave it out")
	}
	return nil
}

// Trial is a migration of a part of each shard to indices of its own.
type Trial struct {
	_         struct{}      `group:"Trial run"`
	Documents int           `flag:"trial" default:"0" min:"0" max:"1000000" help:"try the migration out with at most this many documents of each shard, in indices and a session of their own, and estimate the rest (0: no trial run)"`
	Prefix    string        `flag:"trial-prefix" default:"rfsd-trial-" check:"name" help:"prefix of the names of the indices of the trial run"`
	Measure   time.Duration `flag:"trial-measure" default:"1m" min:"0s" max:"10m" help:"measure the rate of a trial run with further documents for this long, at most eight times the snapshot and 1 GiB of sources (0s: no estimate of the time)"`
	Price     string        `flag:"price" check:"file" help:"TOML file with s3-get-per-1000, egress-per-gb and instance-per-hour; without it the trial run states no cost"`
}

// Of changes the settings of a migration for its trial run, which shares neither session nor state, failed documents or
// indices with it. Templates and other objects that belong to no index are left out; data streams become ordinary indices.
func (t Trial) Of(m Migrate) (Migrate, error) {
	if err := m.Transfer.State.trial(); err != nil {
		return m, err
	}
	if dir := strings.TrimRight(m.Transfer.Failed.Place.Dir, "/"); dir != "" {
		m.Transfer.Failed.Place.Dir = dir + "-trial"
	}
	m.Transfer.Failed.Limit.Max = math.MaxInt64
	m.Conversion.Phases = Phases{phase.PhaseIndices, phase.PhaseDocuments}
	m.Conversion.DataStreams = string(plan.StreamsToIndices)
	return m, nil
}

// trial makes it the state of the trial run.
func (s *State) trial() error {
	const suffix = "trial"
	name := s.Session.OrDefault() + "-" + suffix
	if len(name) > 64 {
		return Usage("--session-name %s is too long for a trial run, whose session is named %s: want at most %d characters", s.Session.Name, name, 64-1-len(suffix))
	}
	s.Session.Name = name
	if s.File != "" {
		s.File += "." + suffix
	}
	return nil
}

// TrialOnly restricts a command to the trial run of a session.
type TrialOnly struct {
	_    struct{} `group:"Trial run" variable:"none"`
	Only bool     `flag:"trial" help:"remove the trial run of the session (rfsd migrate --trial): the objects that it created on the target, then its state"`
}

// OneIndex restricts a list to one index.
type OneIndex struct {
	_    struct{} `group:"Selection"`
	Name string   `flag:"index" help:"only items of this index of the snapshot, or documents for this index of the target"`
}

// States restricts a list to items in some states.
type States struct {
	_     struct{}   `group:"Selection"`
	Names ItemStates `flag:"state" want:"open, leased, expired, done, handed-off or failed" help:"only items in this state; may be repeated: open, leased, expired, done, handed-off, failed"`
}

// Last bounds a list.
type Last struct {
	_     struct{} `group:"Selection" variable:"none"`
	Limit int      `flag:"limit" alias:"n" default:"100" min:"0" max:"1000000" help:"maximum number of entries, the latest ones"`
}

// AllNodes is whether nodes that are gone are listed.
type AllNodes struct {
	_   struct{} `group:"Selection" variable:"none"`
	All bool     `flag:"all" help:"also the nodes that were lost or have left, with the time when the fleet noticed it"`
}

// Subset is the part of a repository that is checked.
type Subset struct {
	_           struct{} `group:"Checks"`
	Data        Part     `flag:"read-data-subset" default:"1/1" want:"n/t with n from 0 to t, as in 1/10" help:"read the data of part n of t of all files"`
	Concurrency int      `flag:"concurrency" default:"4" min:"1" max:"256" help:"shards that are read concurrently"`
}

// Certificate holds the contents of a certificate.
type Certificate struct {
	_     struct{} `group:"Certificate" variable:"none"`
	Dir   string   `flag:"dir" default:"rfsd-certs" help:"directory of the certificates"`
	Fleet FleetName
	Role  string `flag:"role" default:"node" oneof:"node,operator,reader" help:"node, operator or reader"`
	Days  int    `flag:"days" default:"365" min:"1" max:"3650" help:"days for which it is valid"`
}

// Page holds the options of the status page.
type Page struct {
	_         struct{} `group:"Page" variable:"none"`
	Port      int      `flag:"port" default:"0" min:"0" max:"65535" help:"port on 127.0.0.1 (0: any that is free)"`
	NoBrowser bool     `flag:"no-browser" help:"only print the address"`
}

// Watching holds the output options of a status.
type Watching struct {
	_          struct{} `group:"Selection" variable:"none"`
	Watch      bool     `flag:"watch" alias:"w" help:"keep running and print updates"`
	Shards     bool     `flag:"shards" help:"show every shard"`
	ExitStatus bool     `flag:"exit-status" help:"exit with 4 while the migration is not complete"`
}

// Following selects whether a list keeps running and prints updates.
type Following struct {
	_      struct{} `group:"Selection" variable:"none"`
	Follow bool     `flag:"follow" alias:"f" help:"keep running and print new ones"`
}

// Removal confirms the removal of the listed objects.
type Removal struct {
	_   struct{} `group:"Confirmation" variable:"none"`
	Yes bool     `flag:"yes" help:"remove it; without it everything is named and nothing removed"`
}

// Force confirms actions that are rejected otherwise.
type Force struct {
	_   struct{} `group:"Confirmation" variable:"none"`
	Yes bool     `flag:"force" help:"remove the state even if it is incomplete; a rerun starts over"`
}
