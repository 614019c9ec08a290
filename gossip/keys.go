package gossip

import (
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/memberlist"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Keys are AES keys of 16, 24 or 32 bytes. The first encrypts; all decrypt.
type Keys [][]byte

// maxKeys limits the keys tried on every packet.
const maxKeys = 8

// LoadKeys reads a key file with one base64 key per line; the first encrypts. Empty lines and lines that start with # are ignored. It
// returns fault.ErrConfig if the file is accessible to others.
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
		// Errors never quote the line: it may contain most of a key.
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil {
			return nil, fmt.Errorf("key file: %s line %d: want a base64 key: %w", name, i+1, fault.ErrConfig)
		}
		if err := memberlist.ValidateKey(key); err != nil {
			return nil, fmt.Errorf("key file: %s line %d: invalid key of %d bytes: want 16, 24 or 32: %w", name, i+1, len(key), fault.ErrConfig)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 || len(keys) > maxKeys {
		return nil, fmt.Errorf("key file: %s has %d keys: want 1 to %d: %w", name, len(keys), maxKeys, fault.ErrConfig)
	}
	return keys, nil
}

// ring returns the keyring, or nil without keys, which disables encryption.
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

// replace sets the keys of the ring. During the change, packets encrypted with old and new keys can be decrypted.
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
