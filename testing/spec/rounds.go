package spec

import "fmt"

// Size of the model of rounds.
const (
	mostRounds = 3
	ids        = 3
)

// Rounds models following a cluster as a state machine: each round sends the changes of a few documents since the round before. Every sent
// request may arrive again at any later time, even after later rounds have ended. From the end of a round to the start of the next one,
// the target must have exactly the documents of the round's snapshot.
type Rounds struct {
	Name string
	// Plain: round 0 is a migration without versions. Round 1 starts after all of its requests were answered.
	Plain bool

	SameVersion   bool // all rounds have the same version
	NoVersions    bool // requests have no versions
	LikeDocuments bool // deletions have the version of the documents of their round
	LikeDeletions bool // documents have the version of the deletions of their round
	Overtake      bool // a round starts before all requests of the previous one were answered
	NoDeletions   bool // no deletions are sent
	Forgets       bool // the target forgets deletions while it follows
	PlainNoWait   bool // round 1 does not wait for the requests of round 0
}

// Operations that a round sends for a document.
const (
	inserts uint8 = 1 << iota
	deletes
)

// targetDoc is a document on the target.
type targetDoc struct {
	version int8 // 0: unknown to the target
	round   int8 // that wrote it
	deleted bool
}

type roundsState struct {
	round  int8
	holds  [ids]int8              // in the last snapshot: 1 + the round that changed the document last; 0: the document is absent
	sends  [mostRounds][ids]uint8 // operations that each round has to send
	sent   [mostRounds][ids]uint8 // operations that may arrive
	acked  [ids]uint8             // acknowledged operations of the last round
	target [ids]targetDoc
}

// version returns the version of an operation; 0: the target assigns one.
func (v Rounds) version(round int, op uint8) int8 {
	if v.NoVersions || v.Plain && round == 0 {
		return 0
	}
	if v.SameVersion {
		round = 0
	}
	n := int8(2*round + 10)
	if op == inserts && !v.LikeDeletions || op == deletes && v.LikeDocuments {
		n++
	}
	return n
}

// apply delivers an operation and reports whether the target accepted it. An operation that the target rejects because it has a newer
// version is done, too.
func (v Rounds) apply(d *targetDoc, round int, op uint8) bool {
	version := v.version(round, op)
	if version == 0 {
		if version = d.version + 1; d.version < 10 { // versions of a migration stay far below the versions of rounds
			version = min(version, 2)
		}
	}
	if version < d.version { // external_gte
		return false
	}
	*d = targetDoc{version: version, round: int8(round), deleted: op == deletes}
	return true
}

// over reports whether all operations of the last round were acknowledged.
func (s roundsState) over() bool { return s.acked == s.sends[s.round] }

// wrong describes a document of the target that differs from the snapshot of a round that is over; "" if none does.
func (s roundsState) wrong() string {
	if !s.over() {
		return ""
	}
	for id, d := range s.target {
		there := d.version != 0 && !d.deleted
		switch want := s.holds[id]; {
		case want == 0 && there:
			return fmt.Sprintf("document %d, which round %d deleted, is there as of round %d", id, s.round, d.round)
		case want != 0 && !there:
			return fmt.Sprintf("document %d is missing after round %d", id, s.round)
		case want != 0 && d.round != want-1:
			return fmt.Sprintf("document %d is as of round %d after round %d, its snapshot has it as of %d", id, d.round, s.round, want-1)
		}
	}
	return ""
}

// start adds a state for each combination of changes before a round.
func (v Rounds) start(s roundsState, round int8, add func(next roundsState, format string, args ...any)) {
	var choose func(next roundsState, id int)
	choose = func(next roundsState, id int) {
		if id == ids {
			next.round, next.acked = round, [ids]uint8{}
			add(next, "round %d starts, and sends %v", round, next.sends[round])
			return
		}
		choose(next, id+1) // it has not changed
		changed := next
		changed.holds[id], changed.sends[round][id] = round+1, inserts
		choose(changed, id+1)
		if next.holds[id] == 0 {
			return
		}
		changed.sends[round][id] |= deletes // its index was created anew
		choose(changed, id+1)
		changed.holds[id], changed.sends[round][id] = 0, deletes
		if v.NoDeletions {
			changed.sends[round][id] = 0
		}
		choose(changed, id+1)
	}
	choose(s, 0)
}

// steps returns every possible next state.
func (v Rounds) steps(s roundsState) (out []stepOf[roundsState]) {
	add := func(next roundsState, format string, args ...any) {
		out = append(out, stepOf[roundsState]{action: fmt.Sprintf(format, args...), next: next, bad: next.wrong()})
	}
	if s.round+1 < mostRounds && (s.over() || v.Overtake) {
		next := s
		if v.Plain && s.round == 0 && !v.PlainNoWait {
			next.sent[0] = [ids]uint8{}
		}
		v.start(next, s.round+1, add)
	}
	for round := range int(s.round) + 1 {
		for id := range ids {
			for _, op := range []uint8{inserts, deletes} {
				is := round == int(s.round)
				if s.sends[round][id]&op == 0 || !is && s.sent[round][id]&op == 0 {
					continue
				}
				next := s
				next.sent[round][id] |= op
				taken := v.apply(&next.target[id], round, op)
				if is {
					next.acked[id] |= op
				}
				add(next, "operation %d of round %d on document %d arrives, taken: %t", op, round, id, taken)
			}
		}
	}
	if v.Forgets {
		for id, d := range s.target {
			if d.deleted {
				next := s
				next.target[id] = targetDoc{}
				add(next, "the target forgets that document %d was deleted", id)
			}
		}
	}
	return out
}

// Explore visits at most limit states, breadth first.
func (v Rounds) Explore(limit int) Result {
	var first roundsState
	for id := range ids - 1 { // the last document is not in the first snapshot
		first.holds[id], first.sends[0][id] = 1, inserts
	}
	return explore(first, v.steps, limit)
}
