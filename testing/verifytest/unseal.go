// Package verifytest reads what a comparison reports, for tests.
package verifytest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/operation/verify"
)

// Unseal reads a sealed report. An error is fault.ErrCorrupt when it is not as it was written.
func Unseal(b []byte) (*verify.Report, error) {
	var s struct {
		Format int             `json:"rfsd_verify"`
		SHA256 string          `json:"sha256"`
		Report json.RawMessage `json:"report"`
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("report: %w: %w", err, fault.ErrCorrupt)
	}
	if s.Format != 1 {
		return nil, fmt.Errorf("report of format %d, want 1: %w", s.Format, fault.ErrUnsupported)
	}
	sum := sha256.Sum256(s.Report)
	if hex.EncodeToString(sum[:]) != s.SHA256 {
		return nil, fmt.Errorf("report: its digest is %x, it states %s: %w", sum, s.SHA256, fault.ErrCorrupt)
	}
	var r verify.Report
	if err := json.Unmarshal(s.Report, &r); err != nil {
		return nil, fmt.Errorf("report: %w: %w", err, fault.ErrCorrupt)
	}
	return &r, nil
}
