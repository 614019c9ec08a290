package gossip

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/memberlist"

	"github.com/rfsd/rfsd/rfs/fault"
)

// Keys are AES keys of 16, 24 or 32 bytes. The first encrypts; all decrypt.
type Keys [][]byte

// NewKey makes a key of 32 bytes in the form of a key file's line.
func NewKey() string {
	b := make([]byte, 32)
	rand.Read(b) //nolint:errcheck // it never fails
	return base64.StdEncoding.EncodeToString(b)
}

// maxKeys bounds the keys that are tried on every packet.
const maxKeys = 8

// LoadKeys reads a key file: one key per line in base64, the first encrypts; empty lines and
// those that begin with # do not count. The file must not be readable by others.
func LoadKeys(name string) (Keys, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("key file: %w: %w", err, fault.ErrConfig)
	}
	if info.Mode().Perm()&0o037 != 0 {
		return nil, fmt.Errorf("key file: %s has mode %v and may be read or written by others; chmod 600 (or 640 for a group): %w", name, info.Mode().Perm(), fault.ErrConfig)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("key file: %w: %w", err, fault.ErrConfig)
	}
	return parseKeys(name, string(b))
}

func parseKeys(name, content string) (Keys, error) {
	var keys Keys
	for i, line := range strings.Split(content, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		// The words of a wrong line are not repeated: they may be most of a key.
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil {
			return nil, fmt.Errorf("key file: %s line %d is not base64: %w", name, i+1, fault.ErrConfig)
		}
		if err := memberlist.ValidateKey(key); err != nil {
			return nil, fmt.Errorf("key file: %s line %d has %d bytes, not 16, 24 or 32: %w", name, i+1, len(key), fault.ErrConfig)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 || len(keys) > maxKeys {
		return nil, fmt.Errorf("key file: %s has %d keys, not 1 to %d: %w", name, len(keys), maxKeys, fault.ErrConfig)
	}
	return keys, nil
}

// ring is nil without keys: then nothing is encrypted.
func (k Keys) ring() (*memberlist.Keyring, error) {
	if len(k) == 0 {
		return nil, nil
	}
	ring, err := memberlist.NewKeyring(k, k[0])
	if err != nil {
		return nil, fmt.Errorf("key file: %w: %w", err, fault.ErrConfig)
	}
	return ring, nil
}

// replace makes the ring hold exactly these keys. A packet is always decryptable by keys of both sets.
func (k Keys) replace(ring *memberlist.Keyring) error {
	for _, key := range k {
		if err := ring.AddKey(key); err != nil {
			return fmt.Errorf("key file: %w: %w", err, fault.ErrConfig)
		}
	}
	if err := ring.UseKey(k[0]); err != nil {
		return fmt.Errorf("key file: %w: %w", err, fault.ErrConfig)
	}
	for _, old := range ring.GetKeys() {
		if slices.ContainsFunc(k, func(key []byte) bool { return string(key) == string(old) }) {
			continue
		}
		if err := ring.RemoveKey(old); err != nil {
			return fmt.Errorf("key file: %w: %w", err, fault.ErrConfig)
		}
	}
	return nil
}
