package sharing

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Keys sign and verify the shared record. The first key signs and all verify, so that keys can be replaced one file at a time.
type Keys [][]byte

// purpose separates these keys from other uses of the same key file, such as the encryption of gossip.
const purpose = "rfsd shared settings 1"

// Derive derives the keys from the keys in a key file.
func Derive(file [][]byte) (Keys, error) {
	keys := make(Keys, 0, len(file))
	for _, k := range file {
		key, err := hkdf.Key(sha256.New, k, nil, purpose, sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("fleet key: %w: %w", err, fault.ErrConfig)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Scope defines where a record is valid.
type Scope struct {
	Session string
	Cluster string // UUID of the cluster that keeps the record
}

// Sign returns the record with its signature.
func (k Keys) Sign(s Scope, r session.SharedRecord) session.SharedRecord {
	if len(k) > 0 {
		r.Signature = base64.StdEncoding.EncodeToString(sum(k[0], s, r))
	}
	return r
}

// Signed reports whether any of the keys signed the record for this scope.
func (k Keys) Signed(s Scope, r session.SharedRecord) bool {
	given, err := base64.StdEncoding.DecodeString(r.Signature)
	if err != nil || len(given) != sha256.Size {
		return false
	}
	return slices.ContainsFunc(k, func(key []byte) bool { return hmac.Equal(given, sum(key, s, r)) })
}

// sum returns the HMAC of the scope, the revision and the settings. Every text is preceded by its length and every list by its count, so
// that no two records have the same encoding.
func sum(key []byte, s Scope, r session.SharedRecord) []byte {
	var form []byte
	number := func(n int64) { form = binary.BigEndian.AppendUint64(form, uint64(n)) }
	text := func(t string) { number(int64(len(t))); form = append(form, t...) }
	text(s.Session)
	text(s.Cluster)
	number(r.Revision)
	number(int64(len(r.Settings)))
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		text(name)
		number(int64(len(r.Settings[name])))
		for _, v := range r.Settings[name] {
			text(v)
		}
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(form)
	return mac.Sum(nil)
}
