// Package verifytest reads what a comparison reports, for tests.
package verifytest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// Unseal reads the sealed report of a document printed by rfsd verify. It returns a fault.ErrCorrupt if the document was changed.
func Unseal(b []byte) (*verify.Report, error) {
	var s verify.Sealed
	if err := outputtest.Decode(b, &s); err != nil {
		return nil, fmt.Errorf("report: %w: %w", err, fault.ErrCorrupt)
	}
	var report bytes.Buffer
	if err := json.Compact(&report, s.Report); err != nil {
		return nil, fmt.Errorf("report: %w: %w", err, fault.ErrCorrupt)
	}
	if s.Format != 1 {
		return nil, fmt.Errorf("report of format %d, want 1: %w", s.Format, fault.ErrUnsupported)
	}
	sum := sha256.Sum256(report.Bytes())
	if hex.EncodeToString(sum[:]) != s.SHA256 {
		return nil, fmt.Errorf("report: its digest is %x, it states %s: %w", sum, s.SHA256, fault.ErrCorrupt)
	}
	var r verify.Report
	if err := json.Unmarshal(s.Report, &r); err != nil {
		return nil, fmt.Errorf("report: %w: %w", err, fault.ErrCorrupt)
	}
	return &r, nil
}
