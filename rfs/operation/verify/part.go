package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
)

// kept is what a part of a unit adds to each target index, as it is stored.
type kept struct {
	Found   tallies
	Problem string // why the rest cannot be read; "": all was read
}

// errNotKept means that bytes are not what encode has returned.
var errNotKept = errors.New("not as it was kept")

// encode returns the part as gob, with a digest at the end.
func (k kept) encode() ([]byte, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(k); err != nil {
		return nil, fmt.Errorf("encode the results of the comparison: %w", err)
	}
	sum := sha256.Sum256(b.Bytes())
	return append(b.Bytes(), sum[:]...), nil
}

// decodeKept reads what encode has returned of some target indices. Its tables are not to be changed.
func decodeKept(b []byte, among map[string]*comparison) (k kept, err error) {
	if len(b) < sha256.Size {
		return kept{}, errNotKept
	}
	b, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if is := sha256.Sum256(b); !bytes.Equal(is[:], sum) || gob.NewDecoder(bytes.NewReader(b)).Decode(&k) != nil {
		return kept{}, errNotKept
	}
	for index, t := range k.Found {
		if t == nil || among[index] == nil {
			return kept{}, errNotKept
		}
	}
	return k, nil
}
