package rollback

import (
	"context"
	"errors"
	"strconv"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Marks are the highest sequence numbers of the shards that a session filled, recorded when its migration ended.
type Marks struct {
	shards map[string]int64 // by "index/shard"
	later  map[string]bool  // backing indices created since in a data stream of the session
}

// Of returns the mark of a shard: operations with higher sequence numbers are later than the migration. It is -1 for an index that was
// created after the end of the migration. known is false if nothing is recorded.
func (m Marks) Of(index string, shard int) (mark int64, known bool) {
	if m.later[index] {
		return -1, true
	}
	mark, known = m.shards[index+"/"+strconv.Itoa(shard)]
	return mark, known
}

// ReadMarks returns the marks of a session. It leaves out indices that the session did not create, that were written to between two
// of its runs, or that were replaced since.
func ReadMarks(ctx context.Context, api rest.API, records Records) (Marks, error) {
	m := Marks{shards: map[string]int64{}, later: map[string]bool{}}
	for c, err := range records.All(ctx) {
		if err != nil {
			return m, err
		}
		if c.Kind != Index && c.Kind != DataStream || c.State != session.CreationDone {
			continue
		}
		was, err := decodeObject(c)
		if err != nil {
			return m, err
		}
		if was.Sequence == nil || was.Touched {
			continue
		}
		is, err := look(ctx, api, c.Kind, c.Name)
		switch {
		case errors.Is(err, errAbsent), errors.Is(err, errOther), errors.Is(err, fault.ErrConfig), errors.Is(err, fault.ErrRejected):
			continue
		case err != nil:
			return m, err
		case is.uuid != was.UUID || is.uuid == "":
			continue
		}
		m.add(was.Sequence, is.indices)
	}
	return m, nil
}

// add adds the sequence numbers of an index, or of a data stream with its current backing indices.
func (m Marks) add(was map[string]int64, backing []string) {
	for shard, n := range was {
		m.shards[shard] = n
	}
	for _, index := range backing {
		if _, there := was[index+"/0"]; !there {
			m.later[index] = true
		}
	}
}
